"""What fails in a call that many jobs share fails alone."""

from typing import Any

import asyncpg
import pytest

from penstock import Batch, BatchContext, Item, Penstock, Retryable
from tests.fixtures.database import Database
from tests.fixtures.until import until
from tests.fixtures.worker import reaches, worker_of
from tests.worker.test_microbatch import LONG, Calls

pytestmark = pytest.mark.any_pooler

HARDLY = 1e-6  # a rate at which nothing comes in


# Halves


async def test_of_64_items_the_guilty_one_is_found_with_13_calls(app: Penstock) -> None:
    calls = Calls(app, Batch(size=64, linger=LONG), max_attempts=1)
    calls.bad = {37}
    jobs = await app.enqueue_many(calls.of(*range(64)))
    tally = await worker_of(app).drain()
    assert (tally.completed, tally.failed, len(calls.made)) == (63, 1, 13)
    failed = await app.get(jobs[37])
    assert failed.errors[0].message == "{37} in 1 items"
    assert {(await app.get(job)).attempt for job in jobs} == {1}


async def test_several_guilty_ones_fail_each_with_its_own_error(app: Penstock) -> None:
    calls = Calls(app, Batch(size=16, linger=LONG), max_attempts=1)
    calls.bad = {0, 9, 15}
    jobs = await app.enqueue_many(calls.of(*range(16)))
    tally = await worker_of(app).drain()
    assert (tally.completed, tally.failed) == (13, 3)
    told = [(await app.get(jobs[number])).errors[0].message for number in (0, 9, 15)]
    assert told == ["{0} in 1 items", "{9} in 1 items", "{15} in 1 items"]


async def test_if_all_are_guilty_each_is_alone_once(app: Penstock) -> None:
    calls = Calls(app, Batch(size=8, linger=LONG), max_attempts=1)
    calls.bad = set(range(8))
    await app.enqueue_many(calls.of(*range(8)))
    assert (await worker_of(app).drain()).failed == 8
    assert len(calls.made) == 2 * 8 - 1


async def test_a_call_of_a_sync_handler_is_halved_as_well(app: Penstock) -> None:
    calls: list[int] = []

    @app.task(batch=Batch(size=8, linger=LONG), max_attempts=1)
    def divide(items: list[Item[int]]) -> list[float]:
        calls.append(len(items))
        return [1 / item.value for item in items]

    await app.enqueue_many(divide.prepare(number) for number in range(8))
    tally = await worker_of(app).drain()
    assert (tally.completed, tally.failed, calls) == (7, 1, [8, 4, 2, 1, 1, 2, 4])


async def test_failed_items_do_not_share_a_call_with_fresh_ones(app: Penstock) -> None:
    calls = Calls(app, Batch(size=4, linger=0.05))
    calls.bad = {1}
    [poison, *_] = await app.enqueue_many(calls.of(1, 2, 3, 4))
    async with worker_of(app, {"default": 1}):
        await reaches(app, poison, "scheduled")
        del calls.made[:]
        await app.pause("default")
        await app.enqueue_many(calls.of(5, 6))
        await app.retry(poison)
        await app.resume("default")
        await until(lambda: sum(calls.sizes) == 3, what="all three")
    assert sorted(calls.made) == [[1], [5, 6]]


# Errors of all


async def test_an_outage_fails_all_with_one_call(app: Penstock) -> None:
    calls: list[int] = []

    @app.task(batch=Batch(size=8, linger=LONG), max_attempts=1)
    async def reach(items: list[Item[int]]) -> list[None]:
        calls.append(len(items))
        raise ConnectionError("nobody answers")

    jobs = await app.enqueue_many(reach.prepare(number) for number in range(8))
    await worker_of(app).drain()
    assert calls == [8]
    for job in jobs:
        assert (await app.get(job)).errors[0].message == "nobody answers"


async def test_error_in_fails_all_fails_the_whole_call(app: Penstock) -> None:
    calls: list[int] = []

    @app.task(batch=Batch(size=4, linger=LONG, fails_all=(KeyError,)), max_attempts=1)
    async def group(items: list[Item[int]]) -> list[None]:
        calls.append(len(items))
        raise ExceptionGroup("all", [KeyError("one"), KeyError("two")])

    await app.enqueue_many(group.prepare(number) for number in range(4))
    assert (await worker_of(app).drain()).failed == 4
    assert calls == [4]


async def test_an_error_that_says_when_to_come_back_is_of_all(app: Penstock) -> None:
    calls: list[int] = []

    @app.task(batch=Batch(size=4, linger=LONG))
    async def busy(items: list[Item[int]]) -> list[None]:
        calls.append(len(items))
        raise Retryable("busy", after=1800)

    jobs = await app.enqueue_many(busy.prepare(number) for number in range(4))
    assert (await worker_of(app).drain()).retried == 4
    assert calls == [4]
    for job in [await app.get(job) for job in jobs]:
        assert job.run_at is not None
        assert 1700 < (job.run_at - job.created_at).total_seconds() < 1900


class Busy(Exception):
    """A server's 429, as HTTP clients tell of it."""

    status_code = 429
    headers = {"Retry-After": "60"}  # noqa: RUF012


async def test_busy_server_closes_the_bucket_and_postpones_all_items(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    await app.set_limit("openai", rate=HARDLY, burst=100)
    calls: list[int] = []

    @app.task(batch=Batch(size=4, linger=LONG), limits="openai")
    async def ask(items: list[Item[int]]) -> list[None]:
        calls.append(len(items))
        raise Busy

    jobs = await app.enqueue_many(ask.prepare(number) for number in range(4))
    async with worker_of(app):
        for job in jobs:
            found = await reaches(app, job, "scheduled")
            assert (found.failures, found.reason) == (0, "budget:openai")
    assert calls == [4]
    assert await connection.fetchval(
        "SELECT closed_until > clock_timestamp() AND level > 95 FROM penstock.bucket"
    )


async def test_a_budget_of_the_call_that_has_too_little_puts_all_off(app: Penstock) -> None:
    await app.set_limit("tokens", rate=HARDLY, burst=10)
    calls: list[int] = []

    @app.task(batch=Batch(size=4, linger=LONG))
    async def spend(ctx: BatchContext, items: list[Item[int]]) -> list[str]:
        calls.append(len(items))
        async with ctx.budget("tokens", units=2 * len(items)):
            return ["spent"] * len(items)

    jobs = await app.enqueue_many(spend.prepare(number) for number in range(8))
    async with worker_of(app, {"default": 1}):
        for job in jobs[:4]:
            assert await app.wait(job, timeout=20) == "spent"
        for job in jobs[4:]:
            assert (await reaches(app, job, "scheduled")).failures == 0
    assert calls == [4, 4]


async def test_an_item_that_waits_for_an_event_waits_alone(app: Penstock) -> None:
    @app.task(batch=Batch(size=4, linger=0.05))
    async def approve(items: list[Item[int]]) -> list[str]:
        for item in items:
            if item.value == 2:
                await item.ctx.wait_for_event("approved")
        return ["done"] * len(items)

    jobs = await app.enqueue_many(approve.prepare(number) for number in range(4))
    async with worker_of(app):
        for number in (0, 1, 3):
            assert await app.wait(jobs[number], timeout=20) == "done"
        await reaches(app, jobs[2], "blocked")
        await app.send_event("approved")
        assert await app.wait(jobs[2], timeout=20) == "done"


async def test_work_that_nobody_awaited_is_a_failure_of_all(app: Penstock) -> None:
    async def work() -> list[None]:
        return []

    @app.task(batch=Batch(size=2, linger=LONG), max_attempts=1)
    def forgetful(items: list[Item[int]]) -> Any:
        return work()

    [job, _] = await app.enqueue_many([forgetful.prepare(1), forgetful.prepare(2)])
    assert (await worker_of(app).drain()).failed == 2
    assert "nobody has awaited" in (await app.get(job)).errors[0].message


async def test_a_sync_handler_has_budgets_as_well(app: Penstock) -> None:
    await app.set_limit("tokens", rate=HARDLY, burst=10)

    @app.task(batch=Batch(size=2, linger=LONG))
    def spend(ctx: BatchContext, items: list[Item[int]]) -> list[str]:
        with ctx.sync.budget("tokens", units=5):
            return ["spent"] * len(items)

    jobs = await app.enqueue_many([spend.prepare(1), spend.prepare(2)])
    async with worker_of(app):
        assert [await app.wait(job, timeout=20) for job in jobs] == ["spent", "spent"]


# Transactions


async def test_items_are_completed_in_the_handlers_own_transaction(
    app: Penstock, database: Database, connection: asyncpg.Connection
) -> None:
    """Rolled back with the call that raised, and done again with those that are innocent."""
    await connection.execute("CREATE TABLE public.seen (number integer)")

    @app.task(batch=Batch(size=4, linger=LONG), max_attempts=1)
    async def note(items: list[Item[int]]) -> list[None]:
        async with database.connect() as own, own.transaction():
            for item in items:
                await own.execute("INSERT INTO public.seen VALUES ($1)", item.value)
                await item.ctx.complete(own, item.value)
            if any(item.value == 3 for item in items):
                raise ValueError("not this one")
        return [None] * len(items)

    jobs = await app.enqueue_many(note.prepare(number) for number in range(4))
    tally = await worker_of(app).drain()
    assert (tally.completed, tally.failed, tally.refused) == (3, 1, 0)
    assert [(await app.get(job)).result for job in jobs] == [0, 1, 2, None]
    rows = await connection.fetch("SELECT number FROM public.seen ORDER BY 1")
    assert [row["number"] for row in rows] == [0, 1, 2]


async def test_what_was_committed_before_the_call_raised_is_done(
    app: Penstock, database: Database
) -> None:
    calls: list[list[int]] = []

    @app.task(batch=Batch(size=4, linger=LONG), max_attempts=1)
    async def note(items: list[Item[int]]) -> list[None]:
        calls.append([item.value for item in items])
        async with database.connect() as own:
            for item in items:
                if item.value == 2:
                    raise ValueError("not this one")
                async with own.transaction():
                    await item.ctx.complete(own, "noted")
        return [None] * len(items)

    jobs = await app.enqueue_many(note.prepare(number) for number in range(4))
    tally = await worker_of(app).drain()
    assert (tally.completed, tally.failed, tally.refused) == (3, 1, 0)
    assert [(await app.get(job)).result for job in jobs] == ["noted", "noted", None, "noted"]
    assert calls == [[0, 1, 2, 3], [2], [3]]


@pytest.mark.parametrize("does_raise", [True, False])
async def test_stale_item_does_not_fail_the_others_of_its_call(
    app: Penstock, database: Database, connection: asyncpg.Connection, does_raise: bool
) -> None:
    calls: list[list[int]] = []

    @app.task(batch=Batch(size=3, linger=LONG))
    async def note(items: list[Item[int]]) -> list[str]:
        calls.append([item.value for item in items])
        if len(calls) == 1:
            await connection.execute(
                "UPDATE penstock.job SET token = gen_random_uuid() WHERE id = $1",
                int(items[1].ctx.job.id),
            )
            if does_raise:
                async with database.connect() as own, own.transaction():
                    for item in items:
                        await item.ctx.fence(own)
        return ["done"] * len(items)

    jobs = await app.enqueue_many(note.prepare(number) for number in range(3))
    worker = worker_of(app)
    async with worker:
        assert [await app.wait(job, timeout=20) for job in (jobs[0], jobs[2])] == ["done", "done"]
        await until(lambda: worker.tally.refused or does_raise, what="the refusal")
    assert calls == ([[0, 1, 2], [0, 2]] if does_raise else [[0, 1, 2]])
