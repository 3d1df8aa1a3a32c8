"""Polling an outside operation: no slot between the polls, and no failures."""

from contextlib import suppress
from typing import Any

import asyncpg
import pytest

from penstock import (
    Context,
    EventTimeout,
    Exponential,
    NotRetryable,
    Pending,
    Penstock,
    PollTimeout,
    Retryable,
)
from penstock.errors import ConfigError
from tests.fixtures.elapsed import Elapsed
from tests.fixtures.until import until
from tests.fixtures.worker import reaches, worker_of

pytestmark = pytest.mark.any_pooler


async def test_each_attempt_asks_once_until_there_is_an_answer(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    polls: list[str] = []

    async def look(operation: str) -> dict[str, int] | None:
        polls.append(operation)
        return {"words": 3} if len(polls) == 3 else None

    @app.task(max_attempts=1)
    async def transcribe(ctx: Context) -> list[Any]:
        found = await ctx.poll("words", look, "op-1", every=0.01)
        again = await ctx.poll("again", look, operation="op-2", every=0.01, most=1)
        return [found, again, ctx.attempt]

    async with worker_of(app):
        job = await app.enqueue(transcribe)
        done = await reaches(app, job, "failed")
    assert polls == ["op-1", "op-1", "op-1", "op-2"]
    assert (done.reason, done.attempt, done.failures) == ("discarded", 3, 1)
    assert done.errors[-1].type == "penstock.errors.PollTimeout"
    kept = await connection.fetch("SELECT name, result->'polls' AS n FROM penstock.step ORDER BY 1")
    assert [tuple(row) for row in kept] == [("again", "1"), ("words", "3")]


async def test_retry_restarts_polls_and_waits_that_timed_out(app: Penstock) -> None:
    done: list[str] = []

    @app.task
    async def transcribe(ctx: Context) -> str:
        await ctx.step("start", done.append, "start")
        with suppress(EventTimeout):
            await ctx.wait_for_event("words", timeout=0.01)
        return await ctx.poll("words", lambda: done.append("poll"), every=0.01, most=2)

    async with worker_of(app):
        job = await app.enqueue(transcribe)
        await reaches(app, job, "failed")
        assert done == ["start", "poll", "poll"]
        await app.send_event("words")
        await app.retry(job)
        await reaches(app, job, "failed")
    assert done == ["start", "poll", "poll", "poll", "poll"]


async def test_between_polls_the_slot_is_free(app: Penstock) -> None:
    ran: list[str] = []

    @app.task
    def transcribe(ctx: Context) -> str:
        def look() -> str | None:
            return "words" if ran else None

        return ctx.sync.poll("words", look, every=60)

    @app.task
    def other() -> None:
        ran.append("other")

    async with worker_of(app, {"default": 1}):
        job = await app.enqueue(transcribe)
        waiting = await reaches(app, job, "scheduled")
        assert (waiting.reason, waiting.failures) == ("poll:words", 0)
        await app.wait(await app.enqueue(other), 30)
        await app.retry(job)
        assert await app.wait(job, 30) == "words"


async def test_an_error_worth_a_retry_is_a_poll_without_an_answer(app: Penstock) -> None:
    errors: list[Exception] = [
        ConnectionResetError("lost"),
        Retryable("busy", after=0.02),
        NotRetryable("no such operation"),
    ]

    async def look() -> None:
        raise errors.pop(0)

    @app.task(max_attempts=1)
    async def transcribe(ctx: Context) -> None:
        await ctx.poll("words", look, every=0.01)

    async with worker_of(app):
        job = await reaches(app, await app.enqueue(transcribe), "failed")
    assert (job.attempt, job.failures, job.errors[0].message) == (3, 1, "no such operation")


async def test_the_wait_is_what_the_check_says_or_grows(app: Penstock) -> None:
    answers: list[Any] = [Pending(after=90), None, Retryable("busy", after=50)]

    async def look() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @app.task
    async def transcribe(ctx: Context) -> None:
        growing = Exponential(base=10, factor=3, cap=1000, jitter=0)
        await ctx.poll("words", look, every=growing, within=10_000)

    async with worker_of(app):
        job = await app.enqueue(transcribe)
        waits = []
        for number in (1, 2, 3):
            waiting = await until_attempt(app, job, number)
            waits.append((waiting.run_at - waiting.attempted_at).total_seconds())
            if number < 3:
                await app.retry(job)
    assert [round(wait, -1) for wait in waits] == [90, 30, 50]


async def test_the_time_for_polls_ends_with_a_last_one(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    polls: list[int] = []
    raised: list[PollTimeout] = []

    @app.task
    async def transcribe(ctx: Context) -> None:
        try:
            await ctx.poll("words", polls.append, 1, every=60, within=100)
        except PollTimeout as error:
            raised.append(error)
            if len(raised) == 1:
                raise ValueError("and then something else fails") from error

    async with worker_of(app):
        elapsed = Elapsed()
        job = await app.enqueue(transcribe)
        await reaches(app, job, "scheduled")
        later = "UPDATE penstock.step SET created_at = created_at - interval '{} s'"
        await connection.execute(later.format(50))
        await app.retry(job)
        waiting = await until_attempt(app, job, 2)
        left = (waiting.run_at - waiting.attempted_at).total_seconds()
        # Not 60: the last poll is at the end of the time for them.
        assert elapsed.explains(50 - left)
        await connection.execute(later.format(50))
        await app.retry(job)
        await until_attempt(app, job, 3)
        await app.retry(job)
        await app.wait(job, 30)
    assert len(polls) == 3
    assert [error.polls for error in raised] == [3, 3]


async def until_attempt(app: Penstock, job: Any, number: int) -> Any:
    """The job when this attempt has ended."""

    async def ended() -> Any:
        found = await app.get(job)
        return found if (found.state, found.attempt) == ("scheduled", number) else None

    return await until(ended, what=f"attempt {number}")


@pytest.mark.parametrize("given", [{"every": -1}, {"most": 0}, {"within": 0}])
async def test_a_poll_says_what_is_allowed(app: Penstock, given: Any) -> None:
    @app.task
    async def work(ctx: Context) -> None:
        with pytest.raises(ConfigError):
            await ctx.poll("x", abs, 1, **given)

    async with worker_of(app):
        await app.wait(await app.enqueue(work), 30)
