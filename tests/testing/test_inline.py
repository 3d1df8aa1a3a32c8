"""A task run inline goes the way of a job, without a queue."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from penstock import (
    Cancel,
    Context,
    Discard,
    Done,
    Exponential,
    Fixed,
    NotRetryable,
    Parent,
    PayloadRefused,
    Penstock,
    Retry,
    Retryable,
    Snooze,
    task,
)
from penstock.testing import AttemptFailed, Inline, Told, attempt, run


@dataclass
class Book:
    title: str
    pages: int


@task
async def measure(book: Book) -> int:
    return book.pages * 2


@task
def spell(word: str, *, times: int = 1) -> str:
    return "-".join(word) * times


@task
async def read(ctx: Context, book: Book) -> str:
    for page in range(1, book.pages + 1):
        ctx.progress(page, book.pages, f"page {page}")
    return book.title


async def test_a_handler_runs_and_its_value_comes_back() -> None:
    assert await run(measure, Book("Emma", 3)) == 6
    assert await run(spell, "ab", times=2) == "a-ba-b"


async def test_arguments_go_through_json() -> None:
    seen = []

    @task(name="look")
    async def look(names: tuple[str, ...], at: datetime) -> None:
        seen.append((names, at))

    at = datetime.now(UTC)
    await run(look, ["a", "b"], at)  # type: ignore[arg-type]
    assert seen == [(("a", "b"), at)]


async def test_arguments_of_the_wrong_type_are_refused() -> None:
    with pytest.raises(PayloadRefused, match="it would not fit the task"):
        await run(measure, "Emma")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="cannot be called like this"):
        await run(measure)  # type: ignore[call-arg]


async def test_what_a_handler_raises_is_raised() -> None:
    @task(name="fail")
    async def fail() -> None:
        raise ValueError("no such book")

    with pytest.raises(ValueError, match="no such book") as raised:
        await run(fail)
    assert raised.traceback[-1].name == "fail"
    assert "attempt 1 of job 1" in raised.value.__notes__[0]


@pytest.mark.parametrize("is_async", [True, False])
async def test_progress_is_recorded(is_async: bool) -> None:
    @task(name="count")
    def count(ctx: Context) -> None:
        ctx.progress(1, 2, "half")
        ctx.progress(2)

    ran = await attempt(read, Book("Emma", 2)) if is_async else await attempt(count)
    expected = (
        (Told(1, 2, "page 1"), Told(2, 2, "page 2")) if is_async else (Told(1, 2, "half"), Told(2))
    )
    assert ran.progress == expected
    assert ran.result == ("Emma" if is_async else None)


OUTCOMES = {
    "done": (Done(5), ("completed", None, 0.0, False)),
    "retry": (Retry(after=7), ("scheduled", None, 7.0, True)),
    "snooze": (Snooze(timedelta(minutes=1)), ("scheduled", None, 60.0, False)),
    "cancel": (Cancel("sold out"), ("cancelled", "sold out", 0.0, False)),
    "discard": (Discard("no text"), ("failed", "discarded", 0.0, True)),
}


@pytest.mark.parametrize("name", OUTCOMES)
async def test_what_a_handler_returns_decides_what_becomes_of_the_job(name: str) -> None:
    returned, expected = OUTCOMES[name]

    @task(name="decide")
    async def decide() -> object:
        return returned

    ran = await attempt(decide)
    assert (ran.state, ran.reason, ran.delay, ran.counts_failure) == expected
    assert ran.value is returned
    assert await run(decide) is returned


async def test_what_has_no_result_says_what_it_came_to() -> None:
    @task(name="wait")
    async def wait() -> Snooze:
        return Snooze(5)

    ran = await attempt(wait)
    with pytest.raises(AssertionError, match=r"no result. Its outcome was Snooze\(delay=5\)"):
        _ = ran.result


async def test_the_task_s_policy_decides_when_to_try_again() -> None:
    @task(name="flaky", retry=Exponential(base=10, jitter=0), max_attempts=3)
    async def flaky() -> None:
        raise OSError("away")

    delays = [(await Inline(number=number).attempt(flaky)).delay for number in (1, 2)]
    assert delays == [10, 20]
    last = await Inline(number=3).attempt(flaky)
    assert (last.state, last.reason) == ("failed", "exhausted")
    assert isinstance(last.error, OSError)


async def test_errors_are_classed_as_in_production() -> None:
    @task(name="classed", discard_on=(KeyError,))
    async def classed(error: str) -> None:
        raise {
            "later": Retryable("busy", after=90),
            "never": NotRetryable("gone"),
            "key": KeyError("x"),
        }[error]

    assert (await attempt(classed, "later")).delay == 90
    assert (await attempt(classed, "never")).reason == "discarded"
    assert (await attempt(classed, "key")).reason == "discarded"


async def test_the_context_is_a_real_one(caplog: pytest.LogCaptureFixture) -> None:
    jobs = []

    @task(name="look")
    async def look(ctx: Context, order: int) -> None:
        jobs.append(ctx.job)
        ctx.logger.warning("looking")
        assert ctx.attempt == 4
        assert not ctx.cancelled

    caplog.set_level(logging.WARNING)
    chosen = look.options(
        tenant="acme",
        subject="order:7",
        tags=["nightly"],
        meta={"from": "test"},
        queue="slow",
        priority=3,
        retry=Fixed(5),
    )
    await Inline(number=4).run(chosen, 7)
    [job] = jobs
    assert (job.tenant, job.subject, job.tags, job.meta) == (
        "acme",
        "order:7",
        ("nightly",),
        {"from": "test"},
    )
    assert (job.queue, job.priority, job.args, job.state) == ("slow", 3, {"order": 7}, "running")
    assert (job.attempt, job.failures) == (4, 3)
    assert datetime.now(UTC) - job.created_at < timedelta(seconds=10)
    assert "[look 1#4] looking" in caplog.text


class Mailer:
    def __init__(self, name: str) -> None:
        self.name = name


@task(resources=[Mailer])
async def send(ctx: Context) -> str:
    return ctx.resource(Mailer).name


async def test_resources_are_given_by_the_test() -> None:
    assert await Inline(resources={Mailer: Mailer("fake")}).run(send) == "fake"


async def test_resources_come_from_the_app_unless_the_test_gives_them() -> None:
    app = Penstock("postgresql://nobody@nowhere/none", include=[send])
    life = []

    @app.resource
    @asynccontextmanager
    async def mailer() -> AsyncIterator[Mailer]:
        life.append("open")
        yield Mailer("real")
        life.append("closed")

    assert await Inline(app=app).run(send) == "real"
    assert life == ["open", "closed"]
    assert await Inline(app=app, resources={Mailer: Mailer("fake")}).run(send) == "fake"
    assert await Inline(app=app).run(spell, "ab") == "a-b"
    assert life == ["open", "closed"]


async def test_a_missing_resource_parks_the_job_as_in_production() -> None:
    ran = await attempt(send)
    assert (ran.state, ran.reason) == ("scheduled", "missing_resource")
    with pytest.raises(AttemptFailed, match="could not open Mailer"):
        await run(send)


@pytest.mark.parametrize("is_async", [True, False])
async def test_the_job_s_timeout_holds(is_async: bool) -> None:
    @task(name="slow", timeout=0.05)
    async def slow(ctx: Context) -> None:
        await asyncio.Event().wait()

    @task(name="busy", timeout=0.05)
    def busy(ctx: Context) -> None:
        while not ctx.cancelled:
            pass

    chosen = slow if is_async else busy
    ran = await attempt(chosen)
    assert (ran.state, ran.counts_failure) == ("scheduled", True)
    with pytest.raises(TimeoutError, match=r"longer than its timeout of 0\.05 s"):
        await run(chosen)


async def test_without_a_stored_job_there_is_no_fence(connection: asyncpg.Connection) -> None:
    @task(name="fenced")
    async def fenced(ctx: Context) -> None:
        await ctx.complete(connection)

    with pytest.raises(RuntimeError, match=r"drain\(app\) instead"):
        await run(fenced)


async def test_a_test_that_gives_up_leaves_nothing_running() -> None:
    ended = []

    @task(name="slow")
    async def slow() -> None:
        patience.reschedule(0)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(None) as patience:
            await run(slow)
    assert ended == [True]


async def test_the_parents_of_a_job_are_given_by_the_test() -> None:
    @task(name="merge")
    async def merge(ctx: Context) -> dict[str, Any]:
        parents = await ctx.parents()
        return {name: each.result or each.error for name, each in parents.items()}

    failed = Parent(id="7", step="b", task="part", state="failed", error="ValueError: broken")
    given = Inline(parents={"a": 1, "b": failed})
    assert await given.run(merge) == {"a": 1, "b": "ValueError: broken"}
    assert await run(merge) == {}
