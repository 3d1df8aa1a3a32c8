"""Scheduled jobs start when they are due, and nobody polls for them."""

import asyncio
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta

import pytest

from penstock import Context, Fixed, Penstock
from tests.fixtures.until import until
from tests.fixtures.worker import counted, leading, listening, worker_of


@pytest.mark.told
async def test_scheduled_job_starts_within_100_ms_of_its_time(app: Penstock) -> None:
    late: list[float] = []

    @app.task
    async def look(ctx: Context) -> None:
        assert ctx.job.run_at is not None
        late.append((datetime.now(UTC) - ctx.job.run_at).total_seconds())

    worker = worker_of(app, rescan=3600, poll=3600, promote_most=3600)
    async with worker:
        await leading(worker)
        await listening(worker)
        calls = counted(app, "promote")
        # The soonest of seven, or of seven more: a slow machine makes others wait for a processor.
        for number in range(1, 11):
            for delay in (0.9, 0.3, 0.6, 0.45, 0.75, 1.05, 1.2):
                await app.enqueue(look.options(delay=delay))
            await until(lambda number=number: len(late) == 7 * number, what="all to run")
            if min(late) <= 0.1:
                break
        assert 0 <= min(late) <= 0.1
        # One look for each news and each job, and a few more: no storm.
        assert len(calls) <= 3 * len(late)


@pytest.mark.told
async def test_an_idle_promoter_looks_seldom(app: Penstock) -> None:
    @app.task
    async def note() -> None: ...

    worker = worker_of(app, promote_most=3600)
    async with worker:
        await leading(worker)
        await listening(worker)
        calls = counted(app, "promote")
        await app.enqueue(note.options(delay=3600))
        await until(lambda: calls, what="a look after the news")
        before = len(calls)
        for _ in range(20):
            await app.wait(await app.enqueue(note), timeout=30)
        assert len(calls) - before <= 3


async def test_an_earlier_job_is_not_kept_waiting_by_a_later_one(app: Penstock) -> None:
    @app.task
    async def note(text: str) -> str:
        return text

    async with worker_of(app, promote_most=3600, rescan=3600):
        await app.enqueue(note.options(delay=3600), "later")
        assert await app.wait(await app.enqueue(note.options(delay=0.1), "soon"), timeout=30)


async def test_a_time_in_absolute_terms_is_kept(app: Penstock) -> None:
    @app.task
    async def note(ctx: Context) -> float:
        assert ctx.job.run_at is not None
        return (datetime.now(UTC) - ctx.job.run_at).total_seconds()

    async def late() -> float:
        due = datetime.now(UTC) + timedelta(seconds=0.4)
        seconds: float = await app.wait(await app.enqueue(note.options(run_at=due)), timeout=30)
        assert seconds >= 0
        return seconds

    async with worker_of(app, promote_most=3600, rescan=3600):
        # A slow machine makes one or another wait for a processor.
        await until(lambda: is_below(1, late()), what="one that runs in time")


async def is_below(most: float, number: Awaitable[float]) -> bool:
    return await number < most


async def test_many_tiny_delays_do_not_get_stuck(app: Penstock) -> None:
    """Retries that commit in any order, each a moment after its due time was told."""

    @app.task(retry=Fixed(0.01), max_attempts=4)
    async def flaky(ctx: Context) -> int:
        await asyncio.sleep(0)
        if ctx.attempt < 4:
            raise ValueError
        return ctx.attempt

    worker = worker_of(app, promote_most=3600)
    async with worker:
        jobs = await app.enqueue_many(flaky.prepare() for _ in range(200))
        async with asyncio.timeout(90):
            assert [await app.wait(job) for job in jobs] == [4] * 200
    assert worker.tally.retried == 600


async def test_more_than_one_batch_of_due_jobs_is_promoted_at_once(app: Penstock) -> None:
    ran: list[int] = []
    count = 2500

    @app.task
    async def note() -> None:
        ran.append(1)

    await app.enqueue_many(note.options(delay=0.01).prepare() for _ in range(count))
    async with worker_of(app, promote_most=3600):
        await until(lambda: len(ran) == count, what="all to run")
