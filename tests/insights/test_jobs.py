"""What is seen of single jobs."""

import asyncio
from datetime import timedelta

import asyncpg
import pytest

from penstock import Context, Fixed, Penstock, Snooze
from penstock.errors import JobNotFound
from penstock.insights import Insights, Progress
from tests.fixtures.until import until
from tests.fixtures.worker import ghost, worker_of


async def test_the_jobs_that_run_for_longest_come_first(app: Penstock, insights: Insights) -> None:
    started, go = asyncio.Event(), asyncio.Event()

    @app.task
    async def walk(ctx: Context) -> None:
        ctx.progress(3, 10, "on the way")
        started.set()
        await go.wait()

    first = await app.enqueue(walk)
    async with worker_of(app, name="walker"):
        await started.wait()
        second = await app.enqueue(walk)

        async def both():
            found = await insights.running()
            said = [job for job in found if job.progress is not None]
            return said if len(said) == 2 else None

        found = await until(both, what="both jobs to have said how far they are")
        assert [job.id for job in found] == [first.id, second.id]
        assert [job.id for job in await insights.running(limit=1)] == [first.id]
        assert found[0].progress == Progress(done=3, total=10, message="on the way")
        assert found[0].progress.share == pytest.approx(0.3)
        assert (found[0].worker, found[0].is_alive, found[0].attempt) == ("walker", True, 1)
        assert found[0].seconds >= found[1].seconds >= 0
        seen = await insights.job(first.id)
        assert seen.place.worker == "walker"
        assert seen.place.progress == found[0].progress
        assert seen.waits == ()
        go.set()


async def test_what_failed_last_comes_first_with_its_last_error(
    app: Penstock, insights: Insights
) -> None:
    @app.task(max_attempts=1)
    async def fail(customer: int) -> None:
        raise ValueError(f"no customer {customer}")

    jobs = [await app.enqueue(fail, number) for number in range(3)]
    for _ in jobs:
        await worker_of(app).drain(limit=1)
    found = await insights.failures(limit=2)
    assert [job.id for job in found] == [jobs[2].id, jobs[1].id]
    assert (found[0].error_type, found[0].error_message) == ("ValueError", "no customer 2")
    assert found[0].reason == "exhausted"
    assert 0 <= found[0].seconds_ago < 60


async def test_the_timeline_tells_what_happened_in_order(app: Penstock, insights: Insights) -> None:
    @app.task(max_attempts=2)
    async def fail() -> None:
        raise ValueError("no")

    job = await app.enqueue(fail)
    await worker_of(app).drain(limit=1)
    seen = await insights.job(job.id)
    assert [moment.what for moment in seen.timeline] == [
        "enqueued",
        "attempt 1 began",
        "attempt 1: ValueError",
        "due",
    ]
    await app.retry(job)
    await worker_of(app).drain(limit=1)
    seen = await insights.job(job.id)
    assert [moment.what for moment in seen.timeline] == [
        "enqueued",
        "attempt 1 began",
        "attempt 1: ValueError",
        "attempt 2 began",
        "attempt 2: ValueError",
        "failed",
    ]


async def test_timeline_shows_the_start_of_a_lost_attempt(
    app: Penstock, insights: Insights, connection: asyncpg.Connection
) -> None:
    @app.task
    async def send() -> None: ...

    job = await app.enqueue(send)
    await ghost(connection, seconds=0.1)

    async def rescued() -> bool:
        return bool(await connection.fetch("SELECT * FROM penstock.rescue_v1()"))

    await until(rescued, what="the lease to end")
    await worker_of(app).drain(limit=1)
    seen = await insights.job(job.id)
    assert [moment.what for moment in seen.timeline] == [
        "enqueued",
        "attempt 1 began",
        "attempt 1: WorkerLost",
        "attempt 2 began",
        "completed",
    ]


async def test_the_timeline_counts_attempts_that_left_nothing(
    app: Penstock, insights: Insights
) -> None:
    @app.task(retry=Fixed(0))
    async def look(ctx: Context) -> Snooze | None:
        if ctx.attempt == 4:
            raise ValueError("no")
        return None if ctx.attempt == 6 else Snooze(0)

    job = await app.enqueue(look)
    await worker_of(app).drain()
    seen = await insights.job(job.id)
    assert [moment.what for moment in seen.timeline] == [
        "enqueued",
        "attempts 1 to 3 had ended without an error",
        "attempt 4 began",
        "attempt 4: ValueError",
        "attempt 5 had ended without an error",
        "attempt 6 began",
        "completed",
    ]


@pytest.mark.parametrize("job", ["42", "no-number", ""])
async def test_a_job_that_does_not_exist(insights: Insights, job: str) -> None:
    with pytest.raises(JobNotFound):
        await insights.job(job)


async def test_the_last_job_before_a_moment_is_found_by_halving(
    app: Penstock, insights: Insights, connection: asyncpg.Connection
) -> None:
    @app.task
    async def send() -> None: ...

    assert await insights.last_before(await _now(connection)) == 0
    first = await app.enqueue_many([send.prepare() for _ in range(5)])
    await app.delete(first[2])
    between = await _now(connection)
    second = await app.enqueue_many([send.prepare() for _ in range(5)])
    await worker_of(app).drain(limit=3)
    assert await insights.last_before(between) == int(first[-1].id)
    after = await _now(connection) + timedelta(seconds=1)
    assert await insights.last_before(after) == int(second[-1].id)
    assert await insights.last_before(between - timedelta(days=1)) == 0


async def _now(connection: asyncpg.Connection):
    return await connection.fetchval("SELECT clock_timestamp()")


async def test_a_job_whose_worker_is_lost_says_so(
    app: Penstock, insights: Insights, connection: asyncpg.Connection
) -> None:
    @app.task
    async def send() -> None: ...

    job = await app.enqueue(send)
    await ghost(connection, seconds=0.01)

    async def lost():
        seen = await insights.job(job.id)
        return seen.waits

    [wait] = await until(lost, what="the lease to end")
    assert wait.kind == "lost"
    assert "ghost" in wait.message


async def test_timeline_of_a_retried_job_has_all_attempts(
    app: Penstock, insights: Insights
) -> None:
    @app.task(max_attempts=1)
    async def greet(ctx: Context) -> str:
        ctx.progress(ctx.attempt, 10)
        if ctx.attempt == 3:
            raise ValueError("no such customer")
        return f"attempt {ctx.attempt}"

    job = await app.enqueue(greet)

    async def run(attempt: int) -> None:
        await worker_of(app).drain()
        seen = await insights.job(job.id)
        assert seen.place.progress is not None
        assert seen.place.progress.done == attempt

    async def told() -> list[str]:
        return [moment.what for moment in (await insights.job(job.id)).timeline]

    await run(1)
    await app.retry(job)
    seen = await insights.job(job.id)
    assert (seen.place.progress, seen.job.result, seen.job.errors) == (None, None, ())
    begun = ["enqueued", "attempt 1 began", "attempt 1: completed"]
    assert await told() == [*begun, "ready"]
    await app.cancel(job)
    await app.retry(job)
    assert await told() == [*begun, "ready"]
    await run(2)
    assert await told() == [*begun, "attempt 2 began", "completed"]
    assert (await app.get(job)).last_error is None
    await app.retry(job)
    await run(3)
    await app.retry(job)
    await run(4)
    assert await told() == [
        *begun,
        *("attempt 2 began", "attempt 2: completed"),
        *("attempt 3 began", "attempt 3: ValueError"),
        *("attempt 4 began", "completed"),
    ]
    ended = await app.get(job)
    assert [error.attempt for error in ended.errors] == [3]
    assert [(end.attempt, end.state) for end in ended.earlier_ends] == [
        (1, "completed"),
        (2, "completed"),
    ]


async def test_the_attempt_that_a_cancel_ended_stays_in_the_timeline(
    app: Penstock, insights: Insights, connection: asyncpg.Connection
) -> None:
    @app.task
    async def walk() -> None: ...

    job = await app.enqueue(walk)
    await ghost(connection)
    await app.cancel(job)
    await app.retry(job)
    told = [moment.what for moment in (await insights.job(job.id)).timeline]
    assert told == ["enqueued", "attempt 1 began", "attempt 1: cancelled", "ready"]
