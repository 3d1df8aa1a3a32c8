"""Who goes with whom: workers, supervisors, children."""

import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from penstock import Fixed, Penstock
from tests.chaos.process import Process
from tests.fixtures.database import Database
from tests.fixtures.until import until
from tests.fixtures.worker import children_state
from tests.isolation import jobs
from tests.isolation.worker import (
    children_of,
    gone,
    is_alive,
    isolating,
    signed,
    supervisor_of,
)


@pytest.fixture
async def start(database: Database, tmp_path: Path) -> AsyncIterator[Callable[..., Process]]:
    """Start a worker process."""
    started: list[Process] = []

    def start(name: str, **settings: Any) -> Process:
        common = {"url": database.url, "name": name, "folder": str(tmp_path), "lease": 60.0}
        started.append(Process("tests.isolation.program", common | settings))
        return started[-1]

    yield start
    for process in started:
        process.kill()


async def test_killed_workers_children_end_and_its_jobs_run_isolated(
    app: Penstock,
    start: Callable[..., Process],
    tmp_path: Path,
    connection: asyncpg.Connection,
) -> None:
    gate, notes = tmp_path / "gate", [tmp_path / str(number) for number in range(3)]
    worker = start("first")
    await worker.ready()
    spinning = await app.enqueue(jobs.spins_until_killed, str(tmp_path / "spinner"))
    starting = await app.enqueue(jobs.starts_others, str(tmp_path / "other"))
    lost = [await app.enqueue(jobs.signs_on_loop, str(note), str(gate)) for note in notes[:2]]
    child, other = await signed(tmp_path / "spinner"), await signed(tmp_path / "other")
    assert [await signed(note) for note in notes[:2]] == [worker.pid] * 2
    [supervisor] = children_of(worker.pid)
    pids = (child, other, supervisor, *children_of(supervisor))
    worker.kill()
    await gone(*pids)
    await connection.execute("UPDATE penstock.lease SET expires_at = clock_timestamp()")
    for note in notes[:2]:
        note.unlink()
    await app.cancel_many([spinning.id, starting.id])
    async with isolating(app):
        fresh = await app.enqueue(jobs.signs_on_loop, str(notes[2]), str(gate))
        # All three run at the same time.
        seen = [await signed(note) for note in notes]
        gate.touch()
        assert [await app.wait(job, timeout=30) for job in (*lost, fresh)] == seen
    assert len(set(seen)) == 3
    assert seen[2] == os.getpid()
    found = await app.get(lost[0])
    assert (found.losses, found.failures, found.attempt) == (0, 0, 2)


async def test_what_was_lost_is_isolated_unless_its_task_says_never(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    isolated = await app.enqueue(jobs.plain_pid)
    item = await app.enqueue(jobs.many_pids, 1)
    never = await app.enqueue(jobs.never_isolated)
    await connection.execute("UPDATE penstock.job SET suspect = true")
    async with isolating(app):
        assert await app.wait(isolated, timeout=30) != os.getpid()
        assert await app.wait(item, timeout=30) != os.getpid()
        assert await app.wait(never, timeout=30) == os.getpid()
        assert await app.wait(await app.enqueue(jobs.plain_pid), timeout=30) == os.getpid()


async def test_signals_to_all_of_a_service_let_jobs_finish(
    app: Penstock, start: Callable[..., Process], tmp_path: Path
) -> None:
    gate, note = tmp_path / "gate", tmp_path / "note"
    worker = start("all")
    await worker.ready()
    job = await app.enqueue(jobs.signs_and_waits, str(note), str(gate))
    child = await signed(note)
    [supervisor] = children_of(worker.pid)
    for number in (signal.SIGINT, signal.SIGTERM):
        for pid in (child, supervisor):
            os.kill(pid, number)
    os.kill(worker.pid, signal.SIGTERM)
    gate.touch()
    assert await worker.ended() == 0
    assert not any(map(is_alive, (child, supervisor)))
    found = await app.get(job)
    assert (found.state, found.result, found.attempt) == ("completed", child, 1)


async def test_process_forked_by_a_job_does_not_keep_the_supervisor(
    app: Penstock, start: Callable[..., Process], tmp_path: Path
) -> None:
    gate, note, forked = (tmp_path / name for name in ("gate", "note", "forked"))
    worker = start("forking")
    await worker.ready()
    await app.enqueue(jobs.signs_and_waits, str(note), str(tmp_path / "never"))
    child = await signed(note)
    [supervisor] = children_of(worker.pid)
    await app.enqueue(jobs.forks_in_worker, str(forked), str(gate))
    other = await signed(forked)
    os.kill(worker.pid, signal.SIGKILL)
    await gone(child, supervisor)
    assert is_alive(other)
    gate.touch()
    await gone(other)


async def test_a_killed_supervisor_is_replaced_and_its_jobs_run_again(
    app: Penstock, tmp_path: Path
) -> None:
    gate, note = tmp_path / "gate", tmp_path / "note"
    async with isolating(app) as worker:
        at_once = jobs.signs_and_waits.options(retry=Fixed(0))
        job = await app.enqueue(at_once, str(note), str(gate))
        child, supervisor = await signed(note), supervisor_of(worker)
        os.kill(child, signal.SIGSTOP)
        gate.touch()
        os.kill(supervisor, signal.SIGKILL)
        await gone(child, supervisor)
        assert await app.wait(job, timeout=30) != child
        assert supervisor_of(worker) != supervisor
    found = await app.get(job)
    [error] = found.errors
    assert (found.failures, error.kind, error.type) == (1, "death", "Killed")
    assert error.message.startswith("The supervisor of the child process is gone")


async def test_job_whose_child_died_before_it_began_is_released(
    app: Penstock, tmp_path: Path
) -> None:
    async with isolating(app, children=1) as worker:
        idle: int = await app.wait(await app.enqueue(jobs.pid), timeout=30)
        supervisor = supervisor_of(worker)
        os.kill(supervisor, signal.SIGSTOP)  # Nobody hears of the death before the job has come.
        os.kill(idle, signal.SIGKILL)
        job = await app.enqueue(jobs.poisoned_once)
        await until(lambda: not children_state(worker).idle, what="the job to be given")
        os.kill(supervisor, signal.SIGCONT)
        assert await app.wait(job, timeout=30) != idle
    found = await app.get(job)
    assert (found.attempt, found.failures, found.errors) == (2, 0, ())
