"""Durable steps: what is done is not done again, whatever becomes of the attempt."""

from dataclasses import dataclass
from typing import Any

import asyncpg
import pydantic
import pytest

from penstock import Context, Fixed, Penstock
from penstock.job import Job
from penstock.worker.run.journal import Journal
from tests.fixtures.database import Database
from tests.fixtures.proxy import Proxy
from tests.fixtures.until import until
from tests.fixtures.worker import reaches, worker_of

AT_ONCE = Fixed(0)


@dataclass
class Page:
    number: int
    words: tuple[str, ...]


class Invoice(pydantic.BaseModel):
    total: int


async def test_a_retry_goes_on_behind_the_steps_that_are_done(app: Penstock) -> None:
    calls: list[str] = []

    async def fetch(url: str) -> str:
        calls.append("fetch")
        return url.upper()

    def store(text: str) -> int:
        calls.append("store")
        if calls.count("store") < 3:
            raise ValueError("not yet")
        return len(text)

    @app.task(retry=AT_ONCE)
    async def index(ctx: Context, url: str) -> list[Any]:
        text = await ctx.step("fetch", fetch, url)
        return [text, await ctx.step("store", store, text=text), ctx.attempt]

    async with worker_of(app):
        job = await app.enqueue(index, "abc")
        assert await app.wait(job, 30) == ["ABC", 3, 3]
    assert calls == ["fetch", "store", "store", "store"]


async def test_a_sync_handler_has_steps_too(app: Penstock) -> None:
    calls: list[str] = []

    def fetch(url: str) -> str:
        calls.append(url)
        return url.upper()

    async def too_late() -> None: ...

    @app.task(retry=AT_ONCE, max_attempts=2)
    def index(ctx: Context) -> str:
        text = ctx.sync.step("fetch", fetch, "abc")
        if ctx.attempt == 1:
            raise ValueError("again")
        with pytest.raises(TypeError, match="async def"):
            ctx.sync.step("awaits", too_late)
        for call in (fetch("abc"), too_late()):
            with pytest.raises(TypeError, match="Pass the function and its arguments"):
                ctx.sync.step("called", call)  # type: ignore[call-overload]
        with pytest.raises(RuntimeError, match=r"ctx\.sync\.step"):
            ctx.step("forgotten", fetch, "abc")  # type: ignore[unused-coroutine]
        return text

    async with worker_of(app):
        assert await app.wait(await app.enqueue(index), 30) == "ABC"
    assert calls == ["abc", "abc"]


async def test_step_result_has_the_same_type_when_it_is_replayed(app: Penstock) -> None:
    seen: list[Any] = []

    def page() -> Page:
        return Page(1, ("a", "b"))

    def counts() -> dict[int, str]:
        return {1: "a"}

    def invoice() -> Invoice:
        return Invoice(total=42)

    def pair():  # type: ignore[no-untyped-def]
        return (1, 2)

    def nothing() -> None:
        return None

    @app.task(retry=AT_ONCE, max_attempts=2)
    async def work(ctx: Context) -> None:
        seen.append([await ctx.step(fn.__name__, fn) for fn in (page, counts, invoice, pair)])
        assert await ctx.step("nothing", nothing) is None
        if ctx.attempt == 1:
            raise ValueError("again")

    async with worker_of(app):
        await app.wait(await app.enqueue(work), 30)
    assert seen == [[Page(1, ("a", "b")), {1: "a"}, Invoice(total=42), [1, 2]]] * 2


async def failed(app: Penstock, handler: Any) -> Job:
    task = app.task(retry=AT_ONCE, name=handler.__name__)(handler)
    async with worker_of(app):
        return await reaches(app, await app.enqueue(task), "failed")  # type: ignore[no-any-return]


async def test_two_steps_of_one_name_are_refused(app: Penstock) -> None:
    async def work(ctx: Context) -> None:
        for number in (1, 2):
            await ctx.step("double", abs, number)

    job = await failed(app, work)
    assert (job.reason, job.attempt) == ("discarded", 1)
    assert "Give each its own name" in job.errors[0].message


async def test_what_cannot_be_kept_is_refused_with_the_step_named(app: Penstock) -> None:
    def large() -> str:
        return "x" * 2_000_000

    async def work(ctx: Context) -> None:
        await ctx.step("load", large)

    job = await failed(app, work)
    assert "step 'load'" in job.errors[0].message
    assert "2,000,002 bytes" in job.errors[0].message


async def test_a_result_that_does_not_fit_its_annotation_is_not_kept(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    def liar() -> int:
        return "text"  # type: ignore[return-value]

    async def work(ctx: Context) -> None:
        await ctx.step("lie", liar)

    job = await failed(app, work)
    assert "Expected `int`, got `str`" in job.errors[0].message
    assert await connection.fetchval("SELECT count(*) FROM penstock.step") == 0


async def test_a_superseded_attempt_can_keep_no_step(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    taken: list[str] = []

    @app.task
    async def work(ctx: Context) -> str:
        async def slow() -> str:
            if ctx.attempt == 1:
                # As if another worker had it by now.
                await connection.execute(
                    "UPDATE penstock.job SET state = 'ready', lease = NULL, token = NULL,"
                    " ready_at = now()"
                )
            return f"of {ctx.attempt}"

        value = await ctx.step("slow", slow)
        taken.append(value)
        return value

    async with worker_of(app):
        assert await app.wait(await app.enqueue(work), 30) == "of 2"
    assert taken == ["of 2"]


async def test_a_job_without_steps_asks_for_none(
    app: Penstock, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: Any) -> Any:
        raise AssertionError("asked")

    monkeypatch.setattr(Journal, "read", refuse)

    @app.task
    async def plain(ctx: Context) -> int:
        return ctx.attempt

    async with worker_of(app):
        assert await app.wait(await app.enqueue(plain), 30) == 1


async def test_the_leader_sweeps_the_steps_of_jobs_that_are_gone(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    @app.task
    async def work(ctx: Context) -> None:
        await ctx.step("one", abs, 1)

    async def left() -> int:
        return int(await connection.fetchval("SELECT count(*) FROM penstock.step"))

    async with worker_of(app, sweep=0.02):
        await app.wait(await app.enqueue(work), 30)
        assert await left() == 1
        await connection.execute("DELETE FROM penstock.job_history")
        await until(lambda: _is_zero(left), what="the sweep")


async def _is_zero(count: Any) -> bool:
    return await count() == 0


async def test_a_step_whose_answer_was_lost_is_kept_and_not_run_again(proxy: Proxy) -> None:
    calls: list[int] = []
    async with Penstock(proxy.url) as app:

        @app.task
        async def work(ctx: Context) -> int:
            await ctx.step("one", calls.append, 1)
            await ctx.step("two", calls.append, 2)
            return ctx.attempt

        async with worker_of(app):
            lost = proxy.drop_reply_after("save_step_v1")
            job = await app.enqueue(work)
            await lost.wait()
            assert await app.wait(job, 30) == 1
    assert calls == [1, 2]


async def test_a_step_inside_a_fence_says_what_is_in_its_way(
    app: Penstock, database: Database
) -> None:
    async def work(ctx: Context) -> None:
        async with database.connect() as own, own.transaction():
            await ctx.fence(own)
            await ctx.step("one", abs, 1)

    task = app.task(name="work", max_attempts=1)(work)
    async with worker_of(app, step_lock_wait=0):
        job = await reaches(app, await app.enqueue(task), "failed")
    assert "run the steps before it begins" in job.errors[0].message
