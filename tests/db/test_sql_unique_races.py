"""Unique keys under callers at once, in transactions that stay open."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from tests.db.engine import Engine
from tests.db.test_sql_unique import holder, one, put, rule
from tests.fixtures.database import Database
from tests.fixtures.until import until

CALLERS = 50


@pytest_asyncio.fixture(loop_scope="session")
async def callers(database: Database) -> AsyncIterator[list[Engine]]:
    """Connections of so many who enqueue."""
    async with AsyncExitStack() as stack:
        opened = [stack.enter_async_context(database.connect()) for _ in range(CALLERS)]
        yield [Engine(connection) for connection in await asyncio.gather(*opened)]


async def enqueue_in_transactions(
    callers: Sequence[Engine], on_conflict: str, **more: Any
) -> list[tuple[int, bool] | BaseException]:
    """All of them enqueue in an open transaction; the first commits when all others wait."""
    everybody_is_in = asyncio.Event()

    async def enqueue(number: int, caller: Engine) -> tuple[int, bool]:
        async with caller.connection.transaction():
            given = rule(on_conflict=on_conflict, **more)
            [answer] = await put(caller, given, args=json.dumps({"n": number}))
            await everybody_is_in.wait()
            return answer

    async def all_others_wait() -> bool:
        return await first.connection.fetchval(WAITERS) >= len(callers) - 2

    *enqueuers, first = callers
    running = [asyncio.create_task(enqueue(*each)) for each in enumerate(enqueuers)]
    await until(all_others_wait, what="all but one to wait")
    everybody_is_in.set()
    return await asyncio.gather(*running, return_exceptions=True)


WAITERS = "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted"


def newcomers(answers: Sequence[Any]) -> list[int]:
    return [id for id, is_duplicate in answers if not is_duplicate]


async def only_live(engine: Engine) -> asyncpg.Record:
    """The only live job, which has the key."""
    [job] = await engine.connection.fetch("SELECT * FROM penstock.job")
    assert await holder(engine) == job["id"]
    return job


async def test_fifty_who_skip_get_one_job(callers: list[Engine]) -> None:
    answers = await enqueue_in_transactions(callers, "skip")
    job = await only_live(callers[0])
    assert newcomers(answers) == [job["id"]]
    assert {id for id, _ in answers} == {job["id"]}  # type: ignore[misc]


async def test_fifty_who_wait_for_one_that_waits_get_one_job(callers: list[Engine]) -> None:
    answers = await enqueue_in_transactions(callers, "skip", hold="waiting")
    job = await only_live(callers[0])
    assert {id for id, _ in answers} == {job["id"]}  # type: ignore[misc]


async def test_fifty_who_replace_get_one_job_with_the_arguments_of_one(
    callers: list[Engine],
) -> None:
    answers = await enqueue_in_transactions(callers, "replace")
    job = await only_live(callers[0])
    assert newcomers(answers) == [job["id"]]
    assert json.loads(job["args"])["n"] in range(CALLERS - 1)


async def test_of_fifty_who_supersede_each_other_one_lives(callers: list[Engine]) -> None:
    answers = await enqueue_in_transactions(callers, "supersede")
    job = await only_live(callers[0])
    assert len(newcomers(answers)) == CALLERS - 1
    states = await callers[0].states()
    assert states.pop(job["id"]) == "ready"
    assert set(states.values()) == {"cancelled"}


async def test_of_fifty_who_want_to_hear_of_it_all_but_one_do(callers: list[Engine]) -> None:
    answers = await enqueue_in_transactions(callers, "raise")
    job = await only_live(callers[0])
    heard = [each for each in answers if isinstance(each, asyncpg.PostgresError)]
    assert [each for each in answers if each not in heard] == [(job["id"], False)]
    assert {json.loads(each.detail)[1] for each in heard} == {str(job["id"])}
    assert len(heard) == CALLERS - 2


@pytest.mark.parametrize("on_conflict", ["skip", "replace", "supersede"])
async def test_a_key_that_is_rolled_back_goes_to_the_next(
    engine: Engine, other: Engine, on_conflict: str
) -> None:
    transaction = engine.connection.transaction()
    await transaction.start()
    await one(engine, on_conflict=on_conflict)
    waiting = asyncio.create_task(one(other, on_conflict=on_conflict))
    await until(engine.keeps_waiting, what="the other to wait")
    await transaction.rollback()
    second, is_duplicate = await waiting
    assert not is_duplicate
    assert (await only_live(engine))["id"] == second


@pytest.mark.parametrize("on_conflict", ["skip", "replace", "supersede"])
async def test_enqueues_of_the_same_keys_in_reverse_do_not_deadlock(
    engine: Engine, other: Engine, on_conflict: str
) -> None:
    rules = [rule(str(n), on_conflict=on_conflict) for n in range(100)]
    for _ in range(3):  # nobody's at first, then those of the round before
        await asyncio.gather(put(engine, *rules), put(other, *reversed(rules)))
    assert await engine.connection.fetchval("SELECT count(*) FROM penstock.job") == len(rules)


@pytest.mark.parametrize(
    "conflict", [{"on_conflict": "supersede"}, {"on_conflict": "replace"}, {"hold": "waiting"}]
)
async def test_enqueue_locks_conflicting_jobs_in_order_of_id(
    engine: Engine, other: Engine, conflict: dict[str, str]
) -> None:
    [(low, _)] = await put(engine, rule("b"))
    [(high, _)] = await put(engine, rule("a"))
    hold = "SELECT FROM penstock.job WHERE id = $1 FOR UPDATE"
    async with engine.connection.transaction():
        await engine.connection.execute(hold, low)
        enqueuing = asyncio.create_task(put(other, rule("a", **conflict), rule("b", **conflict)))
        await until(engine.keeps_waiting, what="the other to wait")
        await engine.connection.execute(hold, high)  # as a cancel of both does
    await enqueuing


@pytest.mark.parametrize("hold", ["live", "waiting"])
async def test_who_supersedes_and_who_cancels_wait_for_no_circle(
    engine: Engine, other: Engine, hold: str
) -> None:
    """A job is locked before its key, whoever ends it."""
    [(first, _)] = await put(engine, rule())
    async with engine.connection.transaction():
        await engine.connection.execute("SELECT FROM penstock.job WHERE id = $1 FOR UPDATE", first)
        superseding = asyncio.create_task(one(other, hold=hold, on_conflict="supersede"))
        await until(engine.keeps_waiting, what="the other to wait")
        await engine.answers("cancel_v1", first)
    second, _ = await superseding
    assert await engine.states() == {first: "cancelled", second: "ready"}
    assert (await engine.job(first))["reason"] == "requested"


@pytest.mark.parametrize(
    "conflict", [{"on_conflict": "supersede"}, {"on_conflict": "replace"}, {"hold": "waiting"}]
)
async def test_settle_of_a_contested_key_is_busy_and_others_settle(
    engine: Engine, other: Engine, conflict: dict[str, str]
) -> None:
    first, _ = await one(engine)
    await put(engine, None, rule("another"))
    attempts = await engine.claim(await engine.lease())
    async with other.connection.transaction():
        second, _ = await one(other, **conflict)
        assert await engine.settle(attempts) == {first: "busy"}
    superseded = conflict.get("on_conflict") == "supersede"
    late = [each for each in attempts if each["id"] == first]
    assert await engine.settle(late) == ({first: "cancelled"} if superseded else {})
    assert (await only_live(engine))["id"] == second


async def test_a_locked_key_alone_puts_off_its_own_job_only(engine: Engine, other: Engine) -> None:
    first, _ = await one(engine)
    await put(engine, None, rule("another"))
    attempts = await engine.claim(await engine.lease())
    async with other.connection.transaction():
        await other.connection.execute(
            "SELECT FROM penstock.unique_claim WHERE key = 'k' FOR UPDATE"
        )
        assert await engine.settle(attempts) == {first: "busy"}
    assert await engine.settle([each for each in attempts if each["id"] == first]) == {}


async def test_a_rescue_passes_a_job_that_is_being_superseded(
    engine: Engine, other: Engine
) -> None:
    first, _ = await one(engine)
    [(second, _)] = await put(engine, rule("another"))
    await engine.mark_started(await engine.claim(await engine.lease()))
    await engine.connection.execute("UPDATE penstock.lease SET expires_at = 'epoch'")
    await engine.connection.execute("UPDATE penstock.job SET losses = max_losses - 1")
    async with other.connection.transaction():
        await one(other, on_conflict="supersede")
        await engine.call("rescue_v1")
        states = await engine.states()
    assert states == {first: "running", second: "failed"}


async def test_enqueue_waits_for_a_settle_and_gets_the_freed_key(
    engine: Engine, other: Engine
) -> None:
    first, _ = await one(engine)
    [attempt] = await engine.claim(await engine.lease())
    async with engine.connection.transaction():
        await engine.settle([attempt])
        enqueuing = asyncio.create_task(one(other, on_conflict="raise"))
        await until(engine.keeps_waiting, what="the other to wait")
    second, is_duplicate = await enqueuing
    assert (second != first, is_duplicate) == (True, False)
