"""Budgets in handlers: reserved before, settled after, shared by all workers, closed by a 429."""

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import asyncpg
import httpx
import pytest

import penstock
from penstock import Context, DatabaseError, Fixed, Penstock, Retryable
from penstock.job import Job
from penstock.lifecycle import DatabaseHealth
from penstock.store import open_pool
from penstock.telemetry import Events
from penstock.worker.run.budgets import AWAY_RETRY_S, WAIT_SPREAD, Budgets, BudgetWriter
from tests.fixtures.database import Database
from tests.fixtures.elapsed import Elapsed
from tests.fixtures.model_api import ModelApi
from tests.fixtures.proxy import Proxy
from tests.fixtures.until import until
from tests.fixtures.worker import end_leases, pool_of, reaches, worker_of, worker_state

pytestmark = [
    pytest.mark.any_pooler,
    pytest.mark.direct("buckets are asked in tests/db; by polling alone it takes long"),
]

HARDLY = 1e-6  # a rate at which nothing comes in


@pytest.fixture
async def api() -> AsyncIterator[ModelApi]:
    async with ModelApi() as api:
        yield api


async def ask(api: ModelApi) -> int:
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        response = await client.post(api.url)
        response.raise_for_status()
        return int(response.json()["tokens"])


async def level(connection: asyncpg.Connection, key: str = "openai") -> float:
    return float(await connection.fetchval("SELECT level FROM penstock.bucket WHERE key = $1", key))


async def is_closed(connection: asyncpg.Connection, key: str = "openai") -> bool:
    return bool(
        await connection.fetchval(
            "SELECT closed_until > clock_timestamp() FROM penstock.bucket WHERE key = $1", key
        )
    )


# Reserve and settle


async def test_settle_returns_or_charges_the_difference(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    await app.set_limit("openai", rate=HARDLY, burst=100)

    @app.task(max_attempts=1)
    async def spend(ctx: Context, units: int, cost: int | None, fails: bool) -> None:
        async with ctx.budget("openai", units=units) as budget:
            assert budget.units == units
            if cost is not None:
                budget.settle(cost)
            if fails:
                raise ValueError("after the call")

    async with worker_of(app):
        for units, cost, fails, left in [
            (80, 30, False, 70),
            (10, 25, False, 45),
            (5, None, False, 40),
            (20, None, True, 20),
            (20, 5, True, 15),
        ]:
            job = await app.enqueue(spend, units, cost, fails)
            await reaches(app, job, "completed", "failed")
            assert await level(connection) == pytest.approx(left, abs=0.1)


async def test_job_waiting_for_budget_frees_its_slot_and_its_attempt(app: Penstock) -> None:
    await app.set_limit("openai", rate=HARDLY, burst=100)
    ends: list[str] = []

    @app.task(max_attempts=1)
    async def spend(ctx: Context, name: str) -> int:
        try:
            async with ctx.budget("openai", units=100):
                ends.append(name)
        except Exception:
            pytest.fail("it was swallowed")
        finally:
            ends.append(f"{name} left")
        return ctx.attempt

    @app.task
    async def other() -> None:
        ends.append("other")

    async with worker_of(app, {"default": 1}):
        await app.wait(await app.enqueue(spend, "first"), timeout=30)
        waiting = await app.enqueue(spend, "second")
        await reaches(app, waiting, "scheduled")
        await app.wait(await app.enqueue(other), timeout=30)
        assert ends == ["first", "first left", "second left", "other"]
        job = await app.get(waiting)
        assert (job.state, job.reason, job.failures, job.errors) == (
            "scheduled",
            "budget:openai",
            0,
            (),
        )
        await app.set_limit("openai", rate=1000, burst=100)
        await app.retry(waiting)
        assert await app.wait(waiting, timeout=30) > 1
    ended: Job = await app.get(waiting)
    assert (ended.failures, ended.errors) == (0, ())


@pytest.mark.parametrize("limits", [(), ("openai",)])
async def test_many_that_wait_come_back_one_after_the_other(
    app: Penstock, limits: tuple[str, ...]
) -> None:
    await app.set_limit("openai", rate=1000, burst=200)
    jobs, units, cost = 50, 100, 50

    @app.task(limits=limits)
    async def spend(ctx: Context) -> int:
        async with ctx.budget("openai", units=units) as budget:
            budget.settle(cost)
        return ctx.attempt

    async with worker_of(app, {"default": 10}), worker_of(app, {"default": 10}):
        enqueued = await app.enqueue_many([spend.prepare() for _ in range(jobs)])
        attempts = [await app.wait(job, timeout=30) for job in enqueued]
    # About two each; all at once, it would be as many as the bucket takes to serve them.
    assert sum(attempts) <= 6 * jobs


async def test_a_start_in_vain_costs_its_keys_nothing(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    await app.set_limit("openai", rate=HARDLY, burst=100)
    await app.set_limit("requests", rate=HARDLY, burst=100)

    @app.task(limits=("openai", "requests"))
    async def spend(ctx: Context) -> None:
        async with ctx.budget("openai", units=60):
            pass

    async with worker_of(app):
        await app.wait(await app.enqueue(spend), timeout=30)
        await reaches(app, await app.enqueue(spend), "scheduled")

        # One for the start of the first; what was taken ahead goes back in a moment.
        async def is_back() -> bool:
            left = [round(await level(connection, key)) for key in ("openai", "requests")]
            return left == [100 - 60 - 1, 100 - 1]

        await until(is_back, what="all but one start to be given back")


async def test_a_job_may_wait_in_its_slot(app: Penstock, connection: asyncpg.Connection) -> None:
    await app.set_limit("openai", rate=200, burst=100)

    @app.task
    async def spend(ctx: Context, wait: float) -> int:
        async with ctx.budget("openai", units=100, wait=wait):
            return ctx.attempt

    async with worker_of(app):
        await app.wait(await app.enqueue(spend, 0), timeout=30)
        assert await app.wait(await app.enqueue(spend, 5), timeout=30) == 1
        # What would take longer than it may wait is not waited for at all.
        await app.set_limit("openai", rate=HARDLY, burst=100)
        await connection.execute("UPDATE penstock.bucket SET level = 0")
        refused = await reaches(app, await app.enqueue(spend, 600), "scheduled")
        assert refused.attempt == 1


async def test_parallel_calls_of_one_handler_wait_as_one(app: Penstock) -> None:
    await app.set_limit("openai", rate=HARDLY, burst=100)

    @app.task(max_attempts=1)
    async def spend(ctx: Context) -> None:
        async def call() -> None:
            async with ctx.budget("openai", units=60):
                await asyncio.Event().wait()

        async with asyncio.TaskGroup() as group:
            group.create_task(call())
            group.create_task(call())

    async with worker_of(app):
        job = await reaches(app, await app.enqueue(spend), "scheduled", "failed")
    assert (job.state, job.failures) == ("scheduled", 0)


async def test_more_than_a_budget_ever_holds_fails_at_once(app: Penstock) -> None:
    await app.set_limit("openai", rate=10, burst=100)

    @app.task
    async def spend(ctx: Context) -> None:
        async with ctx.budget("openai", units=101):
            pass

    async with worker_of(app):
        job = await reaches(app, await app.enqueue(spend), "failed")
    assert (job.reason, job.failures) == ("discarded", 1)
    assert job.last_error
    assert "never holds 101 units: its burst is 100" in job.last_error.message


async def test_a_budget_that_nobody_has_set_is_asked_for_again(app: Penstock) -> None:
    @app.task(retry=Fixed(0.05), max_attempts=1000)
    async def spend(ctx: Context) -> int:
        async with ctx.budget("openai", units=1):
            return ctx.attempt

    async with worker_of(app):
        job = await app.enqueue(spend)

        async def said() -> str | None:
            error = (await app.get(job)).last_error
            return error.message if error else None

        message = await until(said, what="an attempt to fail for want of a budget")
        assert message is not None
        assert "penstock limits set openai --rate" in message
        await app.set_limit("openai", rate=1)
        assert await app.wait(job, timeout=30) > 1


# Handlers in threads


async def test_sync_handlers_have_the_same(app: Penstock, connection: asyncpg.Connection) -> None:
    await app.set_limit("openai", rate=HARDLY, burst=100)

    @app.task(max_attempts=1)
    def spend(ctx: Context, cost: float) -> int:
        try:
            with ctx.sync.budget("openai", units=100) as budget:
                assert threading.current_thread() is not threading.main_thread()
                budget.settle(cost)
        except Exception:
            pytest.fail("it was swallowed")
        return ctx.attempt

    async with worker_of(app, {"default": 1}):
        assert await app.wait(await app.enqueue(spend, 0), timeout=30) == 1
        assert await app.wait(await app.enqueue(spend, 150), timeout=30) == 1
        waiting = await app.enqueue(spend, 0)
        job = await reaches(app, waiting, "scheduled")
        assert (job.failures, job.reason) == (0, "budget:openai")
        await app.set_limit("openai", rate=1000, burst=100)
        await app.retry(waiting)
        assert await app.wait(waiting, timeout=30) > 1


async def test_sync_handlers_close_a_budget_too(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    await app.set_limit("openai", rate=HARDLY, burst=100)

    @app.task(max_attempts=1)
    def spend(ctx: Context) -> None:
        with ctx.sync.budget("openai", units=70):
            raise Retryable("busy", after=60)

    @app.task
    def close(ctx: Context) -> None:
        ctx.sync.close_bucket("storage", 60)

    async with worker_of(app):
        job = await reaches(app, await app.enqueue(spend), "scheduled", "failed")
        await app.wait(await app.enqueue(close), timeout=30)
    assert (job.state, job.failures, job.errors) == ("scheduled", 0, ())
    assert await is_closed(connection)
    assert await level(connection) == pytest.approx(100, abs=0.1)
    assert await is_closed(connection, "storage")


async def test_blocking_budget_is_refused_in_an_async_handler(app: Penstock) -> None:
    await app.set_limit("openai", rate=1)

    @app.task(max_attempts=1)
    async def spend(ctx: Context) -> None:
        with ctx.sync.budget("openai", units=1):
            pass

    async with worker_of(app):
        job = await reaches(app, await app.enqueue(spend), "failed")
    assert job.last_error
    assert "async with ctx.budget" in job.last_error.message


async def test_thread_waiting_for_a_budget_does_not_delay_a_stop(app: Penstock) -> None:
    await app.set_limit("openai", rate=1, burst=60)
    waits = threading.Event()

    @app.task
    def spend(ctx: Context) -> None:
        with ctx.sync.budget("openai", units=60):
            pass
        waits.set()
        with ctx.sync.budget("openai", units=60, wait=600):
            pytest.fail("there was nothing to get")

    async with worker_of(app, finish=0.1, cancel=60) as worker:
        job = await app.enqueue(spend)
        await until(waits.is_set, what="the handler to wait")
        began = time.monotonic()
    assert time.monotonic() - began < 30
    assert worker.tally.released == 1
    assert (await app.get(job)).state == "ready"


# Retry-After


@pytest.mark.told
async def test_429_closes_the_budget_for_all_workers_at_no_cost(
    app: Penstock, api: ModelApi, connection: asyncpg.Connection
) -> None:
    await app.set_limit("openai", rate=HARDLY, burst=10_000)
    jobs, slots = 14, 3

    @app.task(limits="openai", max_attempts=1)
    async def answer(ctx: Context) -> int:
        async with ctx.budget("openai", units=100) as budget:
            tokens = await ask(api)
            budget.settle(tokens)
        return tokens

    api.be_busy(1)
    async with worker_of(app, {"default": slots}), worker_of(app, {"default": slots}):
        enqueued = await app.enqueue_many([answer.prepare() for _ in range(jobs)])
        for job in enqueued:
            await app.wait(job, timeout=20)
    # Only those that were under way at the first refusal have met with one.
    assert 1 <= len(api.refused) <= 2 * slots
    assert len(api.answered) == jobs
    assert min(api.answered) - min(api.refused) >= 1.0
    for job in enqueued:
        ended = await app.get(job)
        assert (ended.failures, ended.errors) == (0, ())
    spent = 10_000 - await level(connection)
    # One unit for each start, by the limit that the task names; and what the calls have cost.
    assert jobs * 40 + jobs <= spent + 0.1 <= jobs * 40 + 3 * jobs


@pytest.mark.told
async def test_a_429_of_a_task_with_a_rate_closes_the_key_and_no_other(
    app: Penstock, api: ModelApi, connection: asyncpg.Connection
) -> None:
    await app.set_limit("openai", rate=1000)
    await app.set_limit("queue:default", rate=1000)
    await app.set_limit("task:answer", rate=1000)
    await app.set_limit("disk", slots=5)

    @app.task(name="answer", limits=("openai", "disk"), max_attempts=1)
    async def answer(ctx: Context) -> int:
        return await ask(api)

    api.refuse(1, retry_after="3600")
    async with worker_of(app, {"default": 1}):
        first, second = await app.enqueue_many([answer.prepare(), answer.prepare()])
        assert (await reaches(app, first, "scheduled")).failures == 0
        assert await is_closed(connection)
        assert (await app.get(second)).state == "ready"
        others = await connection.fetch(
            "SELECT key FROM penstock.bucket WHERE closed_until > now()"
        )
        assert [row["key"] for row in others] == ["openai"]
        await app.open_bucket("openai")
        await app.wait(second, timeout=30)
    assert len(api.refused) == 1


async def test_a_429_of_a_task_without_a_rate_is_a_failure(app: Penstock, api: ModelApi) -> None:
    await app.set_limit("openai", slots=5)

    @app.task(limits="openai", max_attempts=1)
    async def answer(ctx: Context) -> int:
        return await ask(api)

    api.refuse(1, retry_after="1")
    async with worker_of(app):
        job = await reaches(app, await app.enqueue(answer), "failed")
    assert job.reason == "exhausted"


async def test_a_handler_may_say_itself_that_the_service_refuses(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    await app.set_limit("openai", rate=HARDLY, burst=100)
    await app.set_limit("storage", rate=1)

    @app.task(max_attempts=1)
    async def answer(ctx: Context) -> None:
        await ctx.close_bucket("storage", 60)
        async with ctx.budget("openai", units=70) as budget:
            budget.close(60)

    async with worker_of(app):
        job = await reaches(app, await app.enqueue(answer), "scheduled", "failed", "completed")
    assert (job.state, job.failures, job.reason) == ("scheduled", 0, "budget:openai")
    assert await is_closed(connection)
    assert await is_closed(connection, "storage")
    assert await level(connection) == pytest.approx(100, abs=0.1)


@pytest.mark.told
async def test_jobs_at_hand_of_a_closed_key_are_given_back(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    await app.set_limit("openai", rate=5000, burst=5000)
    await app.set_limit("queue:default", slots=100)

    @app.task(limits="openai")
    async def answer(ctx: Context, number: int) -> None:
        if number == 700:
            await ctx.close_bucket("openai", 60)

    async with worker_of(app, {"default": 1}) as worker:
        await app.enqueue_many([answer.prepare(number) for number in range(2000)])
        await until(lambda: is_closed(connection), what="the key to be closed")
        await until(lambda: not worker_state(worker).jobs, what="what was at hand to be given back")

    states = await connection.fetch("SELECT DISTINCT state FROM penstock.job")
    assert [row["state"] for row in states] == ["ready"]


# What goes wrong


async def test_a_worker_that_dies_has_spent_what_it_reserved(
    app: Penstock, database: Database, connection: asyncpg.Connection
) -> None:
    await app.set_limit("openai", rate=HARDLY, burst=100)
    attempts: list[int] = []

    @app.task(name="spend")
    async def spend(ctx: Context) -> None:
        attempts.append(ctx.attempt)

    job = await app.enqueue(spend)
    sources = [Path(penstock.__file__).parents[1], Path(__file__).parents[2]]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.worker.spender",
        database.url,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, sources))},
    )
    try:
        assert process.stdout
        assert await asyncio.wait_for(process.stdout.readline(), 60) == b"reserved\n"
    finally:
        process.kill()
        await process.wait()
    assert await level(connection) == pytest.approx(40, abs=0.1)
    await end_leases(connection)
    async with worker_of(app):
        await app.wait(job, timeout=30)
    assert attempts == [2]
    assert await level(connection) == pytest.approx(40, abs=0.1)


async def test_budget_call_does_not_fail_while_the_database_is_away(
    app: Penstock, database: Database
) -> None:
    pool = await open_pool(database.url, size=1, name="a test")
    await pool.close()
    budgets = Budgets(pool, app.store, BudgetWriter(pool, DatabaseHealth(Events())))
    assert await budgets.reserve("openai", 1) == AWAY_RETRY_S
    # What cannot be written is told, and the work is done all the same.
    await budgets.correct("openai", 1)
    assert await budgets.close("openai", 5) == 5


async def test_budget_corrections_survive_an_outage(
    app: Penstock, connection: asyncpg.Connection, proxy: Proxy
) -> None:
    for key in ("openai", "closed"):
        await app.set_limit(key, rate=HARDLY, burst=100)
    begun, go_on, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
    async with Penstock(proxy.url) as far:

        @far.task
        async def spend(ctx: Context) -> None:
            async with ctx.budget("openai", units=70) as budget:
                begun.set()
                await go_on.wait()
                budget.settle(10)
            await ctx.close_bucket("closed", 3600)
            ended.set()

        worker = worker_of(far)
        async with worker:
            job = await far.enqueue(spend)
            await begun.wait()
            assert await level(connection) == pytest.approx(30, abs=0.1)
            proxy.refuse()
            await until(lambda: not pool_of(worker).get_size(), what="all connections to break")
            go_on.set()
            await ended.wait()
            owed = worker_state(worker).debts
            proxy.heal()
            assert await app.wait(job, timeout=60) is None
            await until(lambda: not worker_state(worker).debts, what="the debts to be paid")
        assert owed
    assert await level(connection) == pytest.approx(90, abs=0.1)
    assert await is_closed(connection, "closed")


async def test_a_handler_hears_in_our_words_what_the_database_refuses(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    await app.set_limit("openai", rate=10)
    await connection.execute(
        """
        CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION 'no such luck'; END $$;
        CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON penstock.bucket
            FOR EACH ROW EXECUTE FUNCTION public.refuse();
        CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON penstock.step
            FOR EACH ROW EXECUTE FUNCTION public.refuse();
        """
    )

    @app.task
    async def spend(ctx: Context) -> list[str]:
        told = []
        for ask in (partial(reserve, ctx), partial(ctx.step, "step", nothing)):
            try:
                await ask()
            except DatabaseError as error:
                told.append(str(error))
        return told

    async def reserve(ctx: Context) -> None:
        async with ctx.budget("openai", units=1):
            pass

    async with worker_of(app):
        told = await app.wait(await app.enqueue(spend), timeout=30)
    assert len(told) == 2
    assert all("refuses: no such luck, in the function " in each for each in told)


async def nothing() -> None: ...


async def test_those_who_wait_do_not_come_back_at_one_moment(app: Penstock) -> None:
    pool = await app.pool()
    budgets = Budgets(pool, app.store, BudgetWriter(pool, DatabaseHealth(Events())))
    waits = [budgets.not_now("openai", 1e9).delay for _ in range(1000)]
    assert 300.0 <= min(waits) < max(waits) <= 300.0 * (1 + WAIT_SPREAD)
    assert len({round(wait, 2) for wait in waits}) > 300


async def test_a_worker_knows_what_share_is_spent_in_the_end(app: Penstock) -> None:
    pool = await app.pool()
    budgets = Budgets(pool, app.store, BudgetWriter(pool, DatabaseHealth(Events())))
    await app.set_limit("openai", rate=1, burst=10)
    elapsed = Elapsed()
    await budgets.reserve("openai", 10)

    async def is_booked(units: float) -> bool:
        """At one a second: what ran in meanwhile need not be waited for."""
        return elapsed.explains(units - (await budgets.reserve("openai", 10) or 0), edge=0.5)

    assert [await is_booked(units) for units in (10, 10, 15, 20)] == [True] * 4, "a half at first"
    for _ in range(50):
        budgets.learn("openai", 0.1)
    assert await is_booked(10)
    for _ in range(50):
        budgets.learn("openai", 1.0)
    assert await is_booked(60)


async def test_a_cancelled_job_keeps_what_it_settled(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    await app.set_limit("openai", rate=HARDLY, burst=100)
    inside = asyncio.Event()

    @app.task
    async def spend(ctx: Context) -> None:
        async with ctx.budget("openai", units=80) as budget:
            budget.settle(30)
            inside.set()
            await asyncio.Event().wait()

    async with worker_of(app):
        job = await app.enqueue(spend)
        await asyncio.wait_for(inside.wait(), 30)
        await app.cancel(job)

        async def is_back() -> bool:
            return await level(connection) > 69

        await until(is_back, what="the rest to go back")
    with contextlib.suppress(penstock.JobCancelled):
        await app.wait(job, timeout=30)
    assert await level(connection) == pytest.approx(70, abs=0.1)
