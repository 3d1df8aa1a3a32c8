"""Workflows whose jobs end, come and come back at the same time."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from tests.db.engine import Engine
from tests.db.flows import Flow, run, state
from tests.fixtures.database import Database
from tests.fixtures.until import until

READY = ("ready", None, 0)
BLOCKED = ("blocked", None, 1)


@pytest_asyncio.fixture(loop_scope="session")
async def flow(engine: Engine) -> Flow:
    return await Flow.new(engine)


async def claimed(engine: Engine, *ids: int) -> list[Any]:
    rows = await engine.claim(await engine.lease(), limit=20_000)
    return [row for row in rows if row["id"] in ids]


async def test_thousand_concurrent_parents_free_their_child_once(
    engine: Engine, flow: Flow, database: Database
) -> None:
    parents, child = await flow.fan_in(1000)
    attempts = await claimed(engine, *parents)
    await engine.connection.execute(
        "CREATE TABLE freed AS SELECT 0 AS job LIMIT 0;"
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$"
        " BEGIN INSERT INTO freed VALUES (NEW.id); RETURN NULL; END $$;"
        "CREATE TRIGGER note AFTER UPDATE OF state ON penstock.job FOR EACH ROW"
        " WHEN (OLD.state = 'blocked' AND NEW.state = 'ready') EXECUTE FUNCTION note()"
    )

    async def settle(worker: Engine, own: list[Any]) -> None:
        """As a worker does: some at a time, and again what somebody was in the way of."""
        while own:
            batch, own = own[:25], own[25:]
            answers = await worker.settle(batch)
            assert set(answers.values()) <= {"busy"}
            own += [each for each in batch if each["id"] in answers]

    async with AsyncExitStack() as stack:
        connect = stack.enter_async_context
        workers = [Engine(await connect(database.connect())) for _ in range(8)]
        await asyncio.gather(*(settle(each, attempts[n::8]) for n, each in enumerate(workers)))
    assert await state(engine, child) == READY
    assert await engine.connection.fetchval("SELECT array_agg(job) FROM freed") == [child]
    [attempt] = await claimed(engine, child)
    await engine.settle([attempt])
    assert set((await engine.states()).values()) == {"completed"}


async def test_settle_of_a_parent_waits_for_an_open_addition(
    engine: Engine, other: Engine, flow: Flow
) -> None:
    parent = await flow.add()
    [attempt] = await claimed(engine, parent)
    async with engine.connection.transaction():
        child = await flow.add([parent])
        assert await other.settle([attempt]) == {parent: "busy"}
    assert await other.settle([attempt]) == {}
    assert await state(engine, child) == READY


async def test_addition_waits_for_an_open_settle_of_its_parent(
    engine: Engine, other: Engine, flow: Flow
) -> None:
    parent = await flow.add()
    [attempt] = await claimed(engine, parent)
    async with engine.connection.transaction():
        await engine.settle([attempt])
        adding = asyncio.create_task(flow.by(other).add([parent]))
        await until(engine.keeps_waiting)
    assert await state(engine, await adding) == READY


async def test_two_additions_at_once_close_no_cycle(
    engine: Engine, other: Engine, flow: Flow
) -> None:
    first, second = await flow.add(), await flow.add()
    async with engine.connection.transaction():
        await flow.add([first], [second])
        adding = asyncio.create_task(flow.by(other).add([second], [first]))
        await until(engine.keeps_waiting)
    with pytest.raises(asyncpg.PostgresError) as refused:
        await adding
    assert refused.value.sqlstate == "PS015"


async def test_a_child_comes_back_while_its_parent_ends(
    engine: Engine, other: Engine, flow: Flow
) -> None:
    parent = await flow.add()
    early, late = await flow.add([parent]), await flow.add([parent])
    await engine.answers("cancel_v1", early, late)
    [attempt] = await claimed(engine, parent)
    async with engine.connection.transaction():
        assert await engine.answers("retry_v1", early) == {early: "blocked"}
        assert await other.settle([attempt]) == {parent: "busy"}
    async with other.connection.transaction():
        assert await other.settle([attempt]) == {}
        retrying = asyncio.create_task(engine.answers("retry_v1", late))
        await until(other.keeps_waiting)
    assert await retrying == {late: "ready"}
    assert await state(engine, early) == await state(engine, late) == READY


async def test_concurrent_retries_of_parent_and_child_keep_their_order(
    engine: Engine, other: Engine, flow: Flow
) -> None:
    parent = await flow.add()
    child = await flow.add([parent])
    await run(engine, parent, state="failed")
    async with engine.connection.transaction():
        await engine.answers("retry_v1", parent)
        retrying = asyncio.create_task(other.answers("retry_v1", child))
        await until(engine.keeps_waiting)
    assert await retrying == {child: "blocked"}
    assert await state(engine, child) == BLOCKED


async def test_lock_on_a_descendant_blocks_only_its_ancestors_settle(
    engine: Engine, other: Engine, flow: Flow
) -> None:
    top, plain = await flow.add(), await flow.add()
    middle = await flow.add([top])
    bottom = await flow.add([middle])
    attempts = await claimed(engine, top, plain)
    settle = {"states": "failed", "reasons": "exhausted"}
    async with engine.connection.transaction():
        await engine.connection.execute(f"SELECT FROM penstock.job WHERE id = {bottom} FOR UPDATE")
        assert await other.settle(attempts, **settle) == {top: "busy"}
        assert (await state(other, plain))[0] == "failed"
    [waiting] = [each for each in attempts if each["id"] == top]
    assert await other.settle([waiting], **settle) == {}
    assert await state(engine, bottom) == ("cancelled", "parent_failed", 0)


async def test_addition_by_a_job_cancelled_meanwhile_adds_nothing(
    engine: Engine, other: Engine, flow: Flow
) -> None:
    job = await flow.add()
    [attempt] = await claimed(engine, job)
    steps = '[{"request": {"task": "work"}, "step": "more", "parents": [], "children": []}]'
    given = {"job": job, "token": attempt["token"], "call": 1, "steps": steps}
    async with engine.connection.transaction():
        await engine.value("cancel_workflow_v1", workflow=flow.id)
        with pytest.raises(asyncpg.LockNotAvailableError):  # to be asked again soon
            await other.call("extend_own_workflow_v1", **given)
    with pytest.raises(asyncpg.PostgresError) as refused:
        await other.call("extend_own_workflow_v1", **given)
    assert refused.value.sqlstate == "PS003"
    assert await engine.states() == {job: "cancelled"}
