"""`penstock work`: drains, signals and processes."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

from tests.cli.command import Commands, Run
from tests.cli.conftest import Shop
from tests.fixtures.database import Database, connected
from tests.fixtures.until import until

# Of the worker that has the job: so leases can be long, and no slow machine makes one lose its own.
LET_ITS_LEASE_BE_OVER = """
UPDATE penstock.lease SET expires_at = clock_timestamp() - interval '1 hour'
 WHERE id IN (SELECT lease FROM penstock.job)
"""


async def test_a_drain_prints_true_counts_as_one_document(penstock: Commands, shop: Shop) -> None:
    await shop.app.enqueue_many([shop.greet.prepare(f"customer {n}") for n in range(20)])
    await shop.app.enqueue_many([shop.fail.prepare(), shop.snooze.prepare()])
    drained = penstock.run("work", "shop", "--drain", "--json")
    assert drained.returncode == 0
    counts = json.loads(drained.stdout)
    assert counts.pop("seconds") > 0
    assert {name: count for name, count in counts.items() if count} == {
        "settled": 22,
        "completed": 20,
        "failed": 1,
        "snoozed": 1,
    }
    assert penstock.run("work", "shop", "--drain").stdout == "There was nothing to do.\n"


async def test_a_drain_takes_no_more_than_its_limit(penstock: Commands, shop: Shop) -> None:
    await shop.app.enqueue_many([shop.greet.prepare("Ada") for _ in range(9)])
    drained = penstock.run("work", "shop", "--drain", "--limit", "4", "--json")
    assert json.loads(drained.stdout)["completed"] == 4
    assert "5 completed in " in penstock.run("work", "shop", "--drain", "--for", "25s").stdout


async def test_log_lines_as_json_carry_the_job(penstock: Commands, shop: Shop) -> None:
    job = await shop.app.enqueue(shop.greet, "Ada")
    await shop.app.enqueue(shop.fail)
    logged = penstock.run("work", "shop", "--drain", "--log-format", "json").stderr
    lines = [json.loads(line) for line in logged.splitlines()]
    [greeting] = [line for line in lines if line["logger"] == "penstock.job"]
    assert greeting["level"] == "info"
    assert {name: greeting[name] for name in ("job_id", "task", "queue", "attempt")} == {
        "job_id": job.id,
        "task": "shop.greet",
        "queue": "default",
        "attempt": 1,
    }
    [failure] = [line for line in lines if line["level"] == "error"]
    assert failure["task"] == "shop.fail"
    assert ": ValueError: no such customer (shop.py:" in failure["message"]
    [completed] = [line for line in lines if "seconds" in line]
    assert (completed["level"], completed["job_id"]) == ("info", job.id)


async def test_log_can_leave_out_completed_jobs_and_show_tracebacks(
    penstock: Commands, shop: Shop
) -> None:
    await shop.app.enqueue(shop.greet, "Ada")
    await shop.app.enqueue(shop.fail)
    logged = penstock.run("work", "shop", "--drain", "--no-log-jobs", "--dev").stderr
    assert "completed in" not in logged
    assert "ValueError: no such customer\nTraceback (most recent call last):" in logged


async def test_a_signal_lets_running_jobs_finish(penstock: Commands, shop: Shop) -> None:
    started = penstock.folder / "started"
    job = await shop.app.enqueue(shop.send, str(started), 1.0)
    worker = penstock.start("work", "shop", "--queue", "mail:5")
    await until(started.exists, what="the job to start")
    worker.send(signal.SIGTERM)
    assert worker.end() == 0
    assert (await shop.app.get(job)).state == "completed"
    assert "SIGTERM: the worker stops" in worker.log


@pytest.mark.parametrize("has_room_again", [True, False])
async def test_worker_waits_for_a_free_connection_until_it_is_stopped(
    penstock: Commands, shop: Shop, database: Database, has_room_again: bool
) -> None:
    done = penstock.folder / "started"
    await shop.app.enqueue(shop.send, str(done), 0.0)
    async with connected(database.admin_url) as admin:
        await admin.execute(f"ALTER DATABASE {database.name} CONNECTION LIMIT 0")
        worker = penstock.start("work", "shop", "--queue", "mail:5")
        await until(lambda: "waits for a connection" in worker.log, what="the worker to wait")
        if has_room_again:
            await admin.execute(f"ALTER DATABASE {database.name} CONNECTION LIMIT -1")
            await until(done.exists, what="the job to start")
        worker.send(signal.SIGTERM)
        assert worker.end() == 0
        await admin.execute(f"ALTER DATABASE {database.name} CONNECTION LIMIT -1")
    assert worker.log.count("waits for a connection") == 1


async def test_a_second_signal_hurries_and_the_job_is_given_back(
    penstock: Commands, shop: Shop
) -> None:
    started = penstock.folder / "started"
    job = await shop.app.enqueue(shop.send, str(started), 60.0)
    worker = penstock.start("work", "shop", "--queue", "mail")
    await until(started.exists, what="the job to start")
    worker.send(signal.SIGINT)
    await until(lambda: "phase finish" in worker.log, what="the stop to begin")
    worker.send(signal.SIGINT)
    assert worker.end() == 0
    given_back = await shop.app.get(job)
    assert (given_back.state, given_back.failures, given_back.losses) == ("ready", 0, 0)


async def test_a_thread_that_never_returns_does_not_keep_the_process(
    penstock: Commands, shop: Shop
) -> None:
    started = penstock.folder / "started"
    job = await shop.app.enqueue(shop.hang, str(started))
    worker = penstock.start("work", "shop", "--queue", "mail", "--stop-wait", "0")
    await until(started.exists, what="the job to start")
    worker.send(signal.SIGTERM)
    await until(lambda: "phase cancel" in worker.log, what="the job to be cancelled")
    worker.send(signal.SIGTERM)
    assert worker.end() == 0
    assert "handlers are still running in threads: 1" in worker.log
    assert (await shop.app.get(job)).state == "ready"


async def test_a_worker_process_that_is_killed_is_started_again(
    penstock: Commands, shop: Shop, connection: asyncpg.Connection
) -> None:
    fleet = penstock.start("work", "shop", "--processes", "2")
    job = await shop.app.enqueue(shop.die)
    killed = "was killed by SIGKILL; it is started again in 0.5 s"
    await until(lambda: killed in fleet.log, what="the death to be noticed")
    await connection.execute(LET_ITS_LEASE_BE_OVER)
    await shop.app.wait(job, timeout=60)
    found = await shop.app.get(job)
    assert (found.attempt, found.errors[0].type) == (2, "WorkerLost")
    await until(lambda: fleet.log.count("has started") == 3, what="another process")
    fleet.send(signal.SIGTERM)
    assert fleet.end() == 0
    assert fleet.log.count("has started, its pid is") == 3


async def test_processes_that_wait_for_the_database_are_not_given_up(
    penstock: Commands, shop: Shop, database: Database
) -> None:
    async with connected(database.admin_url) as admin:
        await admin.execute(
            f"ALTER DATABASE {database.name} SET default_transaction_read_only = on"
        )
        fleet = penstock.start("work", "shop", "--processes", "2")
        await until(lambda: len(waiting(fleet)) == 2, what="both to wait")
        for pid in waiting(fleet):
            os.kill(pid, signal.SIGKILL)
        await until(lambda: len(waiting(fleet)) == 4, what="two more to wait")
        await admin.execute(f"ALTER DATABASE {database.name} RESET default_transaction_read_only")
        await until(lambda: fleet.log.count("serves ") == 2, what="both to have a lease")
    fleet.send(signal.SIGTERM)
    assert fleet.end() == 0


def waiting(fleet: Run) -> list[int]:
    """The processes that have said that they wait for the database."""
    said = [line for line in fleet.log.splitlines() if "takes no writes" in line]
    return [int(line.split()[3]) for line in said]


async def test_processes_whose_parent_is_killed_stop_by_themselves(
    penstock: Commands, shop: Shop
) -> None:
    started = penstock.folder / "started"
    job = await shop.app.enqueue(shop.send, str(started), 1.0)
    fleet = penstock.start("work", "shop", "--processes", "2")
    await until(started.exists, what="the job to start")
    await until(lambda: len(_children(fleet)) == 2, what="both processes")
    pids = _children(fleet)
    fleet.send(signal.SIGKILL)
    fleet.end()
    await until(lambda: not any(map(_lives, pids)), what="the worker processes to end")
    assert (await shop.app.get(job)).state == "completed"


async def test_processes_stop_when_their_parent_is_killed_early(
    penstock: Commands, shop: Shop
) -> None:
    fleet = penstock.start("work", "shop", "--processes", "2")
    await until(lambda: len(_children(fleet)) == 2, what="both processes")
    pids = _children(fleet)
    fleet.send(signal.SIGSTOP)
    await until(lambda: fleet.log.count(" serves ") == 2, what="both to have told their parent")
    fleet.send(signal.SIGKILL)
    fleet.end()
    await until(lambda: not any(map(_lives, pids)), what="the worker processes to end")


async def test_processes_ended_by_handlers_are_started_again(
    penstock: Commands, shop: Shop
) -> None:
    fleet = penstock.start("work", "shop", "--processes", "2", "--queue", "mail:1")
    for code in (1, 0):
        await shop.app.enqueue(shop.leave, code)
        ended = f"ended with exit code {code}; it is started again in"
        await until(lambda ended=ended: ended in fleet.log, 60, what=f"an end with {code}")
    job = await shop.app.enqueue(shop.send, str(penstock.folder / "started"), 0.0)
    await shop.app.wait(job, timeout=60)
    fleet.send(signal.SIGTERM)
    assert fleet.end() == 0


def test_only_the_parent_process_notifies_systemd(penstock: Commands) -> None:
    place = penstock.folder / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(place))
        channel.settimeout(60)
        penstock.environment["NOTIFY_SOCKET"] = str(place)
        fleet = penstock.start("work", "shop", "--processes", "2")
        assert channel.recv(100) == b"READY=1"
        fleet.send(signal.SIGTERM)
        assert channel.recv(100) == b"STOPPING=1"
        assert fleet.end() == 0
        channel.setblocking(False)
        with pytest.raises(BlockingIOError):
            channel.recv(100)


def test_processes_that_cannot_start_are_not_started_for_ever(bare: Commands) -> None:
    failed = bare.run("work", "nowhere", "--processes", "2")
    assert failed.returncode == 1
    assert "There is no module nowhere" in failed.stderr
    assert "ERROR" in failed.stderr
    assert "None of the 2 worker processes could start" in failed.stderr
    assert "ended with exit code 1 before it had a lease" in failed.stderr


def _children(fleet: Run) -> list[int]:
    pid = fleet.process.pid
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _lives(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    # Without an init that reaps, a process that has ended stays as a zombie.
    return "\nState:\tZ" not in status


async def test_a_worker_runs_without_uvloop(penstock: Commands, shop: Shop) -> None:
    job = await shop.app.enqueue(shop.greet, "Ada")
    (penstock.folder / "sitecustomize.py").write_text("import sys; sys.modules['uvloop'] = None\n")
    run = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "penstock.cli", "work", "shop", "--drain"],
        cwd=penstock.folder,
        env=penstock.environment
        | {"PYTHONPATH": f"{penstock.folder}{os.pathsep}{penstock.environment['PYTHONPATH']}"},
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert run.returncode == 0, run.stderr
    assert (await shop.app.get(job)).state == "completed"
