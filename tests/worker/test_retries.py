"""What is tried again, when, and what is not."""

from datetime import timedelta

import asyncpg
import pytest

from penstock import Context, Exponential, Fixed, Listed, NotRetryable, Penstock, Retryable
from tests.fixtures.worker import reaches, worker_of

pytestmark = pytest.mark.any_pooler


async def test_a_failed_attempt_is_tried_again_until_it_works(app: Penstock) -> None:
    @app.task(retry=Fixed(0.01))
    async def flaky(ctx: Context) -> int:
        if ctx.attempt < 3:
            raise ValueError(f"attempt {ctx.attempt}")
        return ctx.attempt

    async with worker_of(app):
        enqueued = await app.enqueue(flaky)
        assert await app.wait(enqueued, timeout=30) == 3
    job = await app.get(enqueued)
    assert (job.attempt, job.failures) == (3, 2)
    assert [error.message for error in job.errors] == ["attempt 1", "attempt 2"]


@pytest.mark.parametrize(
    ("policy", "seconds"),
    [(Fixed(100), 100), (Listed([7, 8]), 7), (Exponential(base=40, jitter=0), 40)],
)
async def test_the_policy_says_when(app: Penstock, policy: Fixed, seconds: float) -> None:
    @app.task(retry=policy)
    async def broken() -> None:
        raise ValueError

    async with worker_of(app):
        job = await reaches(app, await app.enqueue(broken), "scheduled")
    assert job.run_at - job.errors[0].at == timedelta(seconds=seconds)


async def test_a_jobs_own_policy_beats_its_tasks(app: Penstock) -> None:
    @app.task(retry=Fixed(100))
    async def broken() -> None:
        raise ValueError

    async with worker_of(app):
        enqueued = await app.enqueue(broken.options(retry=Fixed(7)))
        job = await reaches(app, enqueued, "scheduled")
    assert job.run_at - job.errors[0].at == timedelta(seconds=7)


async def test_retry_after_beats_the_policy(app: Penstock) -> None:
    @app.task(retry=Fixed(100))
    async def limited() -> None:
        raise Retryable("429", after=12)

    async with worker_of(app):
        job = await reaches(app, await app.enqueue(limited), "scheduled")
    assert job.run_at - job.errors[0].at == timedelta(seconds=12)
    assert job.failures == 1


async def test_what_is_not_retryable_fails_at_once(app: Penstock) -> None:
    @app.task
    async def hopeless() -> None:
        raise NotRetryable("no such file")

    @app.task(discard_on=[KeyError])
    async def discarded() -> None:
        raise KeyError("gone")

    @app.task(retry_on=[ConnectionError])
    async def picky() -> None:
        raise ValueError("not a connection's fault")

    async with worker_of(app):
        for task in (hopeless, discarded, picky):
            job = await reaches(app, await app.enqueue(task), "failed")
            assert (job.reason, job.attempt, job.failures) == ("discarded", 1, 1)


async def test_the_last_attempt_exhausts_the_job(app: Penstock) -> None:
    @app.task(retry=Fixed(0.01))
    async def broken() -> None:
        raise ValueError

    async with worker_of(app):
        job = await reaches(app, await app.enqueue(broken.options(max_attempts=3)), "failed")
    assert (job.reason, job.attempt, job.failures, len(job.errors)) == ("exhausted", 3, 3, 3)


async def test_attempt_settles_despite_a_broken_stored_retry_policy(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    @app.task(retry=Fixed(100))
    async def broken() -> None:
        raise ValueError

    enqueued = await app.enqueue(broken)
    await connection.execute('UPDATE penstock.job SET retry = \'{"kind": "nonsense"}\'')
    async with worker_of(app):
        job = await reaches(app, enqueued, "scheduled")
    assert job.run_at - job.errors[0].at == timedelta(seconds=100)
