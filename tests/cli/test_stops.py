"""A command ends when it is told to, whatever its handlers do."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from penstock import Penstock
from tests.cli.command import Commands, Run
from tests.fixtures.database import Database
from tests.fixtures.until import until
from tests.fixtures.worker import reaches

STUCK = """
import asyncio, ctypes, os, pathlib, signal, time
from penstock import Penstock

app = Penstock()

@app.task
async def swallow(started: str) -> None:
    pathlib.Path(started).touch()
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            pass

@app.task
async def to_thread(started: str) -> None:
    pathlib.Path(started).touch()
    await asyncio.to_thread(time.sleep, 600)

@app.task
async def block(started: str) -> None:
    pathlib.Path(started).touch()
    time.sleep(600)

@app.task
async def block_in_c(started: str) -> None:
    # As in a driver that waits for its database: Python runs no handlers of signals meanwhile.
    mutex = ctypes.create_string_buffer(64)
    pathlib.Path(started).touch()
    for _ in range(2):
        ctypes.CDLL(None).pthread_mutex_lock(mutex)

def forked(number: int) -> int:
    # How a child ends that was sent a signal.
    child = os.fork()
    if child == 0:
        try:
            os.kill(os.getpid(), number)
        except KeyboardInterrupt:
            os._exit(2)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

@app.task
def in_thread(number: int) -> int:
    return forked(number)

@app.task
async def on_loop(number: int) -> int:
    return forked(number)
"""

# With limits that are short for a test. On asyncio's own loop; the commands use uvloop.
PROGRAM = """
import asyncio, sys
from penstock import Liveness, Stopping
from penstock.cli.process import StopSignals
from stuck import app

async def main():
    stop = StopSignals("the worker stops")
    worker = app.worker(stopping=Stopping(finish=0.2, cancel=0.2, leave=1.0))
    stop.add(worker)
    async with app:
        await worker.run()

asyncio.run(main())
"""


class Stuck:
    """An app whose handlers do not end, and the file that they touch when they begin."""

    def __init__(self, app: Penstock, started: Path) -> None:
        self.app = app
        self.started = started

    async def begins(self, task: str) -> str:
        """Have a job begin; its id."""

        @self.app.task(name=f"stuck.{task}")
        async def stuck(started: str) -> None: ...

        job = await self.app.enqueue(stuck, str(self.started))
        await until(self.started.exists, what="the job to begin")
        return job.id


@pytest.fixture
async def stuck(penstock: Commands, database: Database) -> AsyncIterator[Stuck]:
    (penstock.folder / "stuck.py").write_text(STUCK)
    async with Penstock(database.url) as app:
        yield Stuck(app, penstock.folder / "started")


async def take(run: Run, number: signal.Signals) -> None:
    """Send a signal, and wait until it has arrived: two of a kind at once count as one."""
    os.kill(run.process.pid, number)
    status = Path(f"/proc/{run.process.pid}/status")

    def is_taken() -> bool:
        return "\nShdPnd:\t0000000000000000" in status.read_text()

    await until(is_taken, what=f"{number.name} to be taken")


async def given_back(app: Penstock, job: str) -> None:
    found = await reaches(app, job, "ready")
    assert (found.failures, found.losses) == (0, 0)


@pytest.mark.parametrize("task", ["swallow", "to_thread"])
async def test_handler_that_ignores_cancellation_does_not_block_exit(
    penstock: Commands, stuck: Stuck, task: str
) -> None:
    worker = penstock.start("work", "stuck", "--stop-wait", "0")
    job = await stuck.begins(task)
    worker.send(signal.SIGTERM)
    if task == "swallow":
        await until(lambda: "phase cancel" in worker.log, what="the job to be cancelled")
        worker.send(signal.SIGTERM)
    assert worker.end() == 0
    await given_back(stuck.app, job)
    left = "an asyncio task is still running, at" if task == "swallow" else "running in threads: 1"
    assert left in worker.log


@pytest.mark.parametrize("task", ["swallow", "block", "block_in_c"])
async def test_a_third_signal_ends_the_process_at_once(
    penstock: Commands, stuck: Stuck, task: str
) -> None:
    worker = penstock.start("work", "stuck", "--stop-wait", "600")
    job = await stuck.begins(task)
    for _ in range(3):
        await take(worker, signal.SIGTERM)
    # A loop that is not blocked may be quick enough to end by itself.
    assert worker.end() in ([0, 71] if task == "swallow" else [71])
    assert f"stuck.{task} (job {job}, attempt 1)" in worker.log
    assert f"in {task}" in worker.log
    await given_back(stuck.app, job)


@pytest.mark.parametrize("task", ["in_thread", "on_loop"])
@pytest.mark.parametrize(("number", "end"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 2)])
async def test_signal_to_a_forked_process_does_not_stop_the_worker(
    penstock: Commands, stuck: Stuck, task: str, number: signal.Signals, end: int
) -> None:
    @stuck.app.task(name=f"stuck.{task}")
    async def fork(number: int) -> int: ...

    worker = penstock.start("work", "stuck")
    for _ in range(2):  # What has come to the wrong process is heard by the second.
        job = await stuck.app.enqueue(fork, number)
        assert await stuck.app.wait(job, timeout=60) == end
    assert number.name not in worker.log
    worker.send(signal.SIGTERM)
    assert worker.end() == 0


async def test_a_stop_that_takes_longer_than_it_may_ends_the_process(
    penstock: Commands, stuck: Stuck
) -> None:
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM),
        cwd=penstock.folder,
        env=penstock.environment,
        stderr=asyncio.subprocess.PIPE,
    )
    job = await stuck.begins("block")
    worker.send_signal(signal.SIGTERM)
    async with asyncio.timeout(60):
        _, log = await worker.communicate()
    assert worker.returncode == 71
    assert f"The event loop is blocked by stuck.block (job {job}, attempt 1)" in log.decode()
    await given_back(stuck.app, job)


async def test_worker_waits_for_a_database_that_takes_writes(
    penstock: Commands, stuck: Stuck, connection: asyncpg.Connection
) -> None:
    await set_read_only(connection, "on")
    worker = penstock.start("work", "stuck")
    await until(lambda: "takes no writes" in worker.log, what="the worker to say why it waits")
    await set_read_only(connection, "off")
    await until(lambda: "serves default" in worker.log, what="the worker to have its lease")
    worker.send(signal.SIGTERM)
    assert worker.end() == 0


async def test_a_worker_without_a_lease_ends_when_it_is_told_to(
    penstock: Commands, stuck: Stuck, connection: asyncpg.Connection
) -> None:
    await set_read_only(connection, "on")
    worker = penstock.start("work", "stuck")
    await until(lambda: "takes no writes" in worker.log, what="the worker to say why it waits")
    worker.send(signal.SIGTERM)
    assert worker.end() == 0
    assert "has stopped" in worker.log


async def set_read_only(connection: asyncpg.Connection, value: str) -> None:
    """As on a standby, for connections that are opened from now on."""
    name = await connection.fetchval("SELECT quote_ident(current_database())")
    await connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = {value}")
