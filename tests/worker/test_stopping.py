"""A worker stops in three phases: let jobs finish, cancel them, leave."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import asyncpg
import pytest

from penstock import Context, Penstock
from penstock.telemetry import WorkerStopping
from tests.fixtures.elapsed import Elapsed
from tests.fixtures.proxy import Proxy
from tests.fixtures.until import until
from tests.fixtures.worker import (
    claim_again,
    expect_quick_jobs,
    gathered,
    listening,
    reaches,
    worker_of,
)


async def test_running_jobs_may_finish_and_no_new_ones_begin(app: Penstock) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()
    phases = gathered(app, WorkerStopping)

    @app.task
    async def slow() -> str:
        started.set()
        await go_on.wait()
        return "finished"

    worker = worker_of(app, {"default": 1}, finish=60)
    await worker.start()
    first = await app.enqueue(slow)
    await started.wait()
    second = await app.enqueue(slow)
    stopping = asyncio.ensure_future(worker.stop())
    await until(lambda: phases, what="the stop to begin")
    go_on.set()
    await stopping
    assert (await app.get(first)).result == "finished"
    waiting = await app.get(second)
    assert (waiting.state, waiting.attempt) == ("ready", 0)
    assert [(phase.phase, phase.running) for phase in phases] == [("finish", 1)]


async def test_unfinished_jobs_are_cancelled_and_released_uncounted(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    @app.task
    async def endless() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    worker = worker_of(app, finish=0.05)
    await worker.start()
    enqueued = await app.enqueue(endless)
    await started.wait()
    await worker.stop()
    assert cancelled.is_set()
    job = await app.get(enqueued)
    assert (job.state, job.attempt, job.failures, job.losses) == ("ready", 1, 0, 0)
    assert job.errors == ()
    assert worker.tally.released == 1
    assert await connection.fetchval("SELECT count(*) FROM penstock.lease") == 0


async def test_stubborn_handler_is_left_behind_and_its_job_released(
    app: Penstock, caplog: pytest.LogCaptureFixture
) -> None:
    started, release = asyncio.Event(), asyncio.Event()

    @app.task
    async def stubborn(ctx: Context) -> str:
        started.set()
        while not release.is_set() and ctx.attempt == 1:
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return f"attempt {ctx.attempt}"

    worker = worker_of(app, finish=0.05, cancel=0.05)
    await worker.start()
    enqueued = await app.enqueue(stubborn)
    await started.wait()
    with caplog.at_level(logging.ERROR, "penstock"):
        await worker.stop()
    assert "did not stop in time" in caplog.text
    job = await app.get(enqueued)
    assert (job.state, job.failures, job.losses) == ("ready", 0, 0)
    async with worker_of(app):
        assert await app.wait(enqueued, timeout=30) == "attempt 2"
    release.set()


async def test_a_thread_sees_that_it_should_stop(app: Penstock) -> None:
    started, seen = threading.Event(), threading.Event()

    @app.task
    def slow(ctx: Context) -> None:
        started.set()
        pause = threading.Event()
        for _ in range(6000):
            if ctx.cancelled:
                seen.set()
                return
            pause.wait(0.01)

    worker = worker_of(app, finish=0.05)
    await worker.start()
    enqueued = await app.enqueue(slow)
    await until(started.is_set, what="the handler")
    await worker.stop()
    assert seen.is_set()
    assert (await app.get(enqueued)).state == "ready"


@pytest.mark.told
async def test_a_released_job_is_taken_by_another_worker_at_once(app: Penstock) -> None:
    """It is told: to look, or to wait for the end of a lease, would take longer than is waited."""
    started = asyncio.Event()

    @app.task
    async def slow(ctx: Context) -> int:
        started.set()
        if ctx.attempt == 1:
            await asyncio.Event().wait()
        return ctx.attempt

    first = worker_of(app, finish=0)
    await first.start()
    enqueued = await app.enqueue(slow)
    await started.wait()
    async with worker_of(app, rescan=3600, poll=3600) as second:
        await listening(second)
        await first.stop()
        assert await app.wait(enqueued, timeout=30) == 2


async def test_fetched_jobs_are_given_back_at_once(app: Penstock) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    @app.task
    async def slow() -> None:
        started.set()
        await go_on.wait()

    worker = worker_of(app, {"default": 1}, finish=60)
    await worker.start()
    await app.enqueue(slow)
    await started.wait()
    expect_quick_jobs(worker)
    ahead = await app.enqueue(slow)
    await reaches(app, ahead, "running")
    stopping = asyncio.ensure_future(worker.stop())
    job = await reaches(app, ahead, "ready")
    assert (job.failures, job.losses) == (0, 0)
    go_on.set()
    await stopping


@pytest.mark.parametrize("signals", [2, 3])
async def test_every_further_signal_ends_a_phase(app: Penstock, signals: int) -> None:
    started, release = asyncio.Event(), asyncio.Event()
    phases = gathered(app, WorkerStopping)

    @app.task
    async def slow() -> None:
        started.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                if signals == 2:
                    raise

    worker = worker_of(app, finish=60, cancel=60)
    running = asyncio.ensure_future(worker.run())
    await app.enqueue(slow)
    await started.wait()
    for number in range(signals):
        worker.ask_to_stop()
        if number < 2:
            await until(lambda: len(phases) > number or running.done(), what="the next phase")  # noqa: B023
    async with asyncio.timeout(30):
        await running
    release.set()
    assert [phase.phase for phase in phases] == ["finish", "cancel"]


async def test_two_signals_at_once_hurry_all_the_same(app: Penstock) -> None:
    started = asyncio.Event()

    @app.task
    async def endless() -> None:
        started.set()
        await asyncio.Event().wait()

    worker = worker_of(app, finish=60, cancel=60)
    running = asyncio.ensure_future(worker.run())
    await app.enqueue(endless)
    await started.wait()
    worker.ask_to_stop()
    worker.ask_to_stop()
    async with asyncio.timeout(30):
        await running


async def test_a_worker_can_be_stopped_twice_and_started_again(app: Penstock) -> None:
    @app.task
    async def note() -> str:
        return "done"

    worker = worker_of(app)
    for _ in range(2):
        await worker.start()
        assert await app.wait(await app.enqueue(note), timeout=30) == "done"
        await worker.stop()
        await worker.stop()
    assert worker.tally.completed == 2


BRIEF = {"finish": 0.2, "cancel": 0.2, "pool": 0.2, "leave": 2.0}
# The sum of these, and what a slow machine may take besides. Unbounded, a single statement that
# is broken off takes longer, because asyncpg opens a connection to cancel it.
SOON = 15.0


@pytest.mark.parametrize("work", ["enqueues", "waits", "none"])
async def test_a_stop_ends_in_time_although_the_database_is_frozen(
    proxy: Proxy, caplog: pytest.LogCaptureFixture, work: str
) -> None:
    started, frozen = asyncio.Event(), asyncio.Event()

    async with Penstock(proxy.url) as far:

        @far.task
        async def job() -> None:
            started.set()
            await frozen.wait()
            if work == "waits":
                await asyncio.Event().wait()
            await far.enqueue(job)

        worker = worker_of(far, **BRIEF)
        await worker.start()
        if work != "none":
            await far.enqueue(job)
            await started.wait()
        proxy.swallow()
        try:
            frozen.set()
            claim_again(worker)
            elapsed = Elapsed()
            await worker.stop()
            assert elapsed.seconds < SOON
        finally:
            proxy.heal()
    assert "The lease could not be given back, so it will expire" in caplog.text


async def test_stubborn_resource_does_not_delay_a_stop(
    app: Penstock, caplog: pytest.LogCaptureFixture
) -> None:
    release = asyncio.Event()

    @app.resource
    @asynccontextmanager
    async def stubborn() -> AsyncIterator[Elapsed]:
        yield Elapsed()
        while not release.is_set():
            with suppress(asyncio.CancelledError):
                await release.wait()

    worker = worker_of(app, **BRIEF)
    await worker.start()
    elapsed = Elapsed()
    await worker.stop()
    release.set()
    assert elapsed.seconds < SOON
    assert "resources did not close in time" in caplog.text


async def test_worker_without_leave_time_stops_its_heartbeat(app: Penstock) -> None:
    """The program goes on after `worker.stop()`, and a lease that lived on would keep the jobs."""
    async with worker_of(app, leave=0):
        pass
    await until(
        lambda: not [each for each in threading.enumerate() if "heartbeat" in each.name],
        what="the heartbeat to end",
    )
