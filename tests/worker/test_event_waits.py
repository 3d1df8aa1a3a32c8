"""Jobs that wait for events: blocked, without a slot, until somebody sends one."""

import contextlib
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from penstock import Context, Fixed, Penstock
from penstock.errors import ConfigError, TenantMismatch
from tests.fixtures.worker import reaches, worker_of


async def test_a_job_waits_without_a_slot_and_gets_the_payload(app: Penstock) -> None:
    @app.task
    async def order(ctx: Context, number: int) -> Any:
        answer = await ctx.wait_for_event(f"approved:{number}")
        return [answer, ctx.attempt, ctx.job.failures]

    @app.task
    async def other() -> str:
        return "ran"

    async with worker_of(app, {"default": 1}):
        job = await app.enqueue(order, 42)
        waiting = await reaches(app, job, "blocked")
        assert waiting.reason == "event:approved:42"
        assert await app.wait(await app.enqueue(other), 30) == "ran"
        sent = await app.send_event("approved:42", {"by": "Ada"})
        assert sent.woken == 1
        assert await app.wait(job, 30) == [{"by": "Ada"}, 2, 0]


async def test_each_wait_gets_the_next_event_even_if_sent_before(app: Penstock) -> None:
    @app.task
    def collect(ctx: Context) -> list[Any]:
        return [ctx.sync.wait_for_event("page") for _ in range(3)]

    for page in (1, 2):
        await app.send_event("page", page)
    async with worker_of(app):
        job = await app.enqueue(collect)
        await reaches(app, job, "blocked")
        await app.send_event("page", 3)
        assert await app.wait(job, 30) == [1, 2, 3]


async def test_event_commits_with_the_callers_transaction(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    @app.task
    async def order(ctx: Context) -> Any:
        return await ctx.wait_for_event("approved")

    async with worker_of(app):
        job = await app.enqueue(order)
        await reaches(app, job, "blocked")
        with contextlib.suppress(ZeroDivisionError):
            async with connection.transaction():
                await app.inside(connection).send_event("approved", "rolled back")
                raise ZeroDivisionError
        assert await app.sent_events() == []
        async with connection.transaction():
            await app.inside(connection).send_event("approved", "committed")
        assert await app.wait(job, 30) == "committed"


async def test_timed_out_wait_stays_over_for_later_attempts(app: Penstock) -> None:
    seen: list[int] = []

    @app.task(retry=Fixed(0))
    async def order(ctx: Context) -> str:
        try:
            await ctx.wait_for_event("approved", timeout=timedelta(seconds=0.05))
        except TimeoutError as error:
            seen.append(ctx.attempt)
            await app.send_event("approved", "too late")
            if len(seen) == 1:
                raise ValueError("again") from error
        return "rejected"

    async with worker_of(app):
        job = await app.enqueue(order)
        assert await app.wait(job, 30) == "rejected"
    assert seen == [2, 3]


async def test_a_timeout_that_nobody_catches_fails_the_job_at_once(app: Penstock) -> None:
    @app.task
    async def order(ctx: Context) -> None:
        await ctx.wait_for_event("approved", timeout=0)

    async with worker_of(app):
        job = await reaches(app, await app.enqueue(order), "failed")
    assert (job.reason, job.attempt) == ("discarded", 1)


async def test_events_of_tenants_stay_apart(app: Penstock) -> None:
    @app.task
    async def order(ctx: Context) -> Any:
        return await ctx.wait_for_event("approved")

    async with worker_of(app):
        job = await app.for_tenant("acme").enqueue(order)
        await reaches(app, job, "blocked")
        assert (await app.send_event("approved", "theirs", tenant="globex")).woken == 0
        with pytest.raises(TenantMismatch):
            await app.for_tenant("acme").send_event("approved", tenant="globex")
        await app.for_tenant("acme").send_event("approved", "ours")
        assert await app.wait(job, 30) == "ours"
    [kept] = await app.for_tenant("acme").sent_events()
    assert (kept.name, kept.payload, kept.tenant) == ("approved", "ours", "acme")
    assert len(await app.sent_events(name="approved", limit=1)) == 1
    assert [each.payload for each in await app.sent_events(after=kept.id)] == ["theirs"]


@pytest.mark.parametrize("given", [{"name": ""}, {"name": "x" * 201}, {"name": "x", "keep": 0}])
async def test_an_event_says_what_is_allowed(app: Penstock, given: Any) -> None:
    with pytest.raises(ConfigError):
        await app.send_event(**given)
