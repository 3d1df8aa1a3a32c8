"""Steps, sleeps, events and polls in an app's own tests."""

import asyncio
from datetime import timedelta
from typing import Any

import asyncpg

from penstock import Context, EventTimeout, Pending, Penstock
from penstock.testing import advance, attempt, drain, run
from tests.fixtures.worker import reaches


async def test_steps_run_without_a_database(app: Penstock) -> None:
    @app.task
    async def double(ctx: Context, number: int) -> int:
        return await ctx.step("double", lambda: number * 2)

    assert await run(double, 21) == 42


async def test_a_wait_ends_an_attempt_without_a_database(app: Penstock) -> None:
    @app.task
    async def work(ctx: Context, how: str) -> None:
        match how:
            case "sleep":
                await ctx.sleep(60)
            case "event":
                await ctx.wait_for_event("approved")
            case "poll":
                await ctx.poll("words", lambda: Pending(after=5))

    told = {how: await attempt(work, how) for how in ("sleep", "event", "poll")}
    assert {how: (ran.state, ran.reason, ran.delay) for how, ran in told.items()} == {
        "sleep": ("scheduled", "sleep:1", 60.0),
        "event": ("blocked", "event:approved", 0.0),
        "poll": ("scheduled", "poll:words", 5.0),
    }
    assert not any(ran.counts_failure for ran in told.values())


async def test_drain_lets_the_time_of_sleeps_and_waits_pass(app: Penstock) -> None:
    done: list[Any] = []

    @app.task
    async def remind(ctx: Context) -> None:
        await ctx.step("send", done.append, "sent")
        await ctx.sleep(timedelta(days=3))
        try:
            await ctx.wait_for_event("answered", timeout=timedelta(days=4))
        except EventTimeout:
            await ctx.step("remind", done.append, "reminded")

    job = await app.enqueue(remind)
    await drain(app)
    assert (await app.get(job)).reason == "sleep:1"
    await advance(app, days=3)
    await drain(app)
    assert (await app.get(job)).state == "blocked"
    await drain(app, scheduled=True)
    assert done == ["sent", "reminded"]
    assert (await app.get(job)).state == "completed"


async def test_drain_runs_a_job_that_met_the_sender_of_its_event(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    """A job that asks for an event while it is being sent asks again a second later."""
    sent = asyncio.Event()

    @app.task(queue="orders")
    async def ship(ctx: Context) -> Any:
        await sent.wait()
        return await ctx.wait_for_event("paid")

    @app.task(queue="payments")
    async def pay() -> None:
        async with connection.transaction():
            await app.inside(connection).send_event("paid", 42)
            sent.set()
            await reaches(app, order, "scheduled")

    order = await app.enqueue(ship)
    await app.enqueue(pay)
    await drain(app)
    assert (await app.get(order)).result == 42


async def test_drain_leaves_a_job_whose_sender_does_not_commit(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    @app.task
    async def ship(ctx: Context) -> Any:
        return await ctx.wait_for_event("paid")

    order = await app.enqueue(ship)
    async with connection.transaction():
        await app.inside(connection).send_event("paid", 42)
        await drain(app)
        assert (await app.get(order)).state == "scheduled"
    await drain(app)
    assert (await app.get(order)).result == 42


async def test_an_event_wakes_a_job_in_a_drain(app: Penstock) -> None:
    @app.task
    async def order(ctx: Context) -> Any:
        return await ctx.wait_for_event("approved")

    job = await app.enqueue(order)
    await drain(app)
    await app.send_event("approved", "yes")
    await drain(app)
    assert (await app.get(job)).result == "yes"
