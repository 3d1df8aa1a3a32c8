"""An attempt that takes longer than its timeout."""

import asyncio
import threading
import time

import asyncpg
import pytest

from penstock import Batch, Context, Fixed, Item, Penstock
from penstock.telemetry import JobsRescued, SettleRefused
from tests.fixtures.until import until
from tests.fixtures.worker import gathered, queue_state, reaches, worker_of, worker_state

pytestmark = pytest.mark.any_pooler


async def test_an_async_handler_is_cancelled_at_its_timeout(app: Penstock) -> None:
    cancelled = asyncio.Event()

    @app.task(timeout=0.05, max_attempts=1)
    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async with worker_of(app):
        job = await reaches(app, await app.enqueue(endless), "failed")
    assert cancelled.is_set()
    [error] = job.errors
    assert (job.reason, error.kind, error.type) == ("exhausted", "timeout", "TimedOut")
    assert "0.05 s" in error.message
    assert "asyncio.Event().wait()" in error.traceback


async def test_a_timeout_is_a_failure_that_is_tried_again(app: Penstock) -> None:
    @app.task(timeout=0.1, retry=Fixed(0.01))
    async def slow_at_first(ctx: Context) -> int:
        if ctx.attempt == 1:
            await asyncio.Event().wait()
        return ctx.attempt

    async with worker_of(app):
        assert await app.wait(await app.enqueue(slow_at_first), timeout=30) == 2


async def test_timed_out_thread_settles_at_once_and_keeps_its_slot(
    app: Penstock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    release, told = threading.Event(), threading.Event()

    # Long enough for its thread to begin.
    @app.task(timeout=0.5, max_attempts=1)
    def stuck(ctx: Context) -> None:
        release.wait(60)
        if ctx.cancelled:
            told.set()

    @app.task
    async def quick() -> None: ...

    worker = worker_of(app, {"default": 1})
    async with worker:
        enqueued = await app.enqueue(stuck)
        job = await reaches(app, enqueued, "failed")
        assert job.errors[0].kind == "timeout"
        assert worker_state(worker).overdue == (int(enqueued.id),)
        assert "Its thread keeps its slot" in caplog.text
        waiting = await app.enqueue(quick)
        free = queue_state(worker).free
        assert free == 0
        assert (await app.get(waiting)).state == "ready"
        release.set()
        await app.wait(waiting, timeout=30)
    assert told.is_set()


async def test_every_slot_has_a_thread(app: Penstock) -> None:
    """No sync job waits for a thread while its timeout runs: all that have a slot run at once."""
    together = threading.Barrier(60)

    @app.task(timeout=100, max_attempts=1)
    def meet(number: int) -> None:
        together.wait(60)

    await app.enqueue_many(meet.prepare(number) for number in range(60))
    tally = await worker_of(app, {"default": 60}).drain(seconds=90)
    assert (tally.completed, tally.failed) == (60, 0)


async def test_handler_that_finishes_in_time_is_not_cancelled(app: Penstock) -> None:
    @app.task(timeout=60)
    async def quick(ctx: Context) -> bool:
        await asyncio.sleep(0.01)
        return ctx.cancelled

    async with worker_of(app):
        assert await app.wait(await app.enqueue(quick), timeout=30) is False


async def test_uncancellable_handlers_job_is_rescued_after_its_grace(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    """Its lease lives, but its job is past the timeout: it goes back, and its end is refused."""
    cancelled, release, attempts = asyncio.Event(), asyncio.Event(), []
    rescued, refused = gathered(app, JobsRescued), gathered(app, SettleRefused)

    @app.task(timeout=0.1)
    async def stubborn(ctx: Context) -> str:
        attempts.append(ctx.attempt)
        if ctx.attempt > 1:
            return "second"
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                cancelled.set()
        return "first"

    worker = worker_of(app, {"default": 2}, isolation_wait=0.1)
    async with worker:
        enqueued = await app.enqueue(stubborn)
        await cancelled.wait()
        # Its grace is over; that of the second attempt is long, also for a slow machine.
        await connection.execute(
            "UPDATE penstock.job SET attempted_at = attempted_at - interval '1 min'"
        )
        assert await app.wait(enqueued, timeout=30) == "second"
        release.set()
        await until(lambda: refused, what="the late outcome to be refused")
    job = await app.get(enqueued)
    assert (job.losses, job.failures, job.attempt) == (0, 0, 2)
    assert job.errors[0].type == "Overtime"
    assert attempts == [1, 2]
    assert [event.count for event in rescued] == [1]
    assert [event.answer for event in refused] == ["refused"]
    assert worker.tally.refused == 1


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_without_a_timeout_a_job_may_take_as_long_as_it_likes(
    app: Penstock, kind: str
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    @app.task(name="async", timeout=None)
    async def on_loop() -> str:
        begun.set()
        await asyncio.to_thread(go_on.wait, 60)
        return "done"

    @app.task(name="sync", timeout=None)
    def in_thread() -> str:
        begun.set()
        go_on.wait(60)
        return "done"

    worker = worker_of(app)
    async with worker:
        enqueued = await app.enqueue(app.tasks.get(kind))
        await until(begun.is_set, what="the handler")
        state = worker_state(worker)
        assert (state.running, state.timed) == ((int(enqueued.id),), ())
        go_on.set()
        assert await app.wait(enqueued, timeout=30) == "done"


@pytest.mark.parametrize("is_item", [False, True], ids=["job", "item"])
async def test_blocked_loop_time_does_not_count_towards_the_timeout(
    app: Penstock, is_item: bool
) -> None:
    began, blocked = asyncio.Event(), asyncio.Event()

    async def waits() -> None:
        began.set()
        await blocked.wait()

    @app.task(timeout=0.5, max_attempts=1)
    async def waits_alone() -> None:
        await waits()

    @app.task(timeout=0.5, max_attempts=1, batch=Batch(size=1))
    async def waits_in_batch(items: list[Item[int]]) -> list[None]:
        await waits()
        return [None for _ in items]

    async with worker_of(app):
        job = await (app.enqueue(waits_in_batch, 1) if is_item else app.enqueue(waits_alone))
        await began.wait()
        asyncio.get_running_loop().call_later(0.01, blocked.set)
        time.sleep(1.8)  # noqa: ASYNC251 - as a handler that blocks the loop, or a SIGSTOP
        await app.wait(job, timeout=30)
