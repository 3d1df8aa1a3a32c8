"""The SQL of workflows: who waits, who is freed, who is cancelled, who comes back."""

import asyncpg
import pytest
import pytest_asyncio

from tests.db.engine import Engine
from tests.db.flows import Flow, run, state

BLOCKED = ("blocked", None, 1)
READY = ("ready", None, 0)
CANCELLED = ("cancelled", "parent_failed", 0)
STALLED = ("blocked", "parent_failed", 1)


@pytest_asyncio.fixture(loop_scope="session")
async def flow(engine: Engine) -> Flow:
    return await Flow.new(engine)


async def test_a_diamond_runs_from_its_top_to_its_bottom(engine: Engine, flow: Flow) -> None:
    top = await flow.add()
    left, right = await flow.add([top]), await flow.add([top])
    bottom = await flow.add([left, right])
    assert await state(engine, bottom) == ("blocked", None, 2)
    await run(engine, top)
    assert await state(engine, left) == await state(engine, right) == READY
    await run(engine, left)
    assert await state(engine, bottom) == BLOCKED
    await run(engine, right)
    await run(engine, bottom)
    assert set((await engine.states()).values()) == {"completed"}


@pytest.mark.parametrize(
    ("policy", "told"), [("cancel", CANCELLED), ("continue", READY), ("wait", STALLED)]
)
@pytest.mark.parametrize("end", ["failed", "cancelled"])
async def test_what_becomes_of_a_child_whose_parent_does_not_complete(
    engine: Engine, flow: Flow, policy: str, told: tuple[str, str | None, int], end: str
) -> None:
    parent = await flow.add()
    child = await flow.add([(parent, policy)])
    await run(engine, parent, state=end)
    assert await state(engine, child) == told
    # One that is added when the parent has ended is told the same.
    assert await state(engine, await flow.add([(parent, policy)])) == told


async def test_failed_first_job_cancels_a_chain_of_thousands_at_once(
    engine: Engine, flow: Flow
) -> None:
    number = 2000
    rows = await engine.call(
        "enqueue_v1",
        tasks=["work"] * number,
        args=["{}"] * number,
        workflow=flow.id,
        parents=[None, *(f'[{{"at": {at}}}]' for at in range(1, number))],
    )
    first, *rest = [row["id"] for row in rows]
    await run(engine, first, state="failed")
    states = await engine.states()
    assert states == {first: "failed"} | dict.fromkeys(rest, "cancelled")


async def test_edge_decides_whether_a_child_of_a_cancelled_job_runs(
    engine: Engine, flow: Flow
) -> None:
    top = await flow.add()
    middle = await flow.add([top])
    tidy = await flow.add([(middle, "continue")])
    ask = await flow.add([(middle, "wait")])
    await run(engine, top, state="failed")
    assert await state(engine, middle) == CANCELLED
    assert await state(engine, tidy) == READY
    assert await state(engine, ask) == STALLED


async def test_stalled_child_runs_once_its_retried_parents_complete(
    engine: Engine, flow: Flow
) -> None:
    parent, other = await flow.add(), await flow.add()
    child = await flow.add([(parent, "wait"), (other, "wait")])
    await run(engine, parent, other, state="failed")
    assert await engine.answers("retry_v1", parent) == {parent: "ready"}
    assert await state(engine, child) == ("blocked", "parent_failed", 2)
    await run(engine, parent)
    assert await engine.answers("retry_v1", other) == {other: "ready"}
    assert await state(engine, child) == BLOCKED
    await run(engine, other)
    assert await state(engine, child) == READY


async def test_unblocked_job_is_never_blocked_again(engine: Engine, flow: Flow) -> None:
    parent, live = await flow.add(), await flow.add()
    child = await flow.add([(parent, "wait"), live])
    await run(engine, parent, state="failed")
    assert await engine.answers("unblock_v1", child, live, 999) == {
        child: "ready",
        live: "ready",
        999: "missing",
    }
    assert await state(engine, child) == READY
    await engine.answers("retry_v1", parent)
    assert await state(engine, child) == READY
    await run(engine, live, state="failed")
    assert await state(engine, child) == READY


async def test_retried_parent_blocks_its_child_again_and_counts_once(
    engine: Engine, flow: Flow
) -> None:
    first, second = await flow.add(), await flow.add()
    child = await flow.add([first, second])
    await run(engine, first)
    assert await state(engine, child) == BLOCKED
    await engine.answers("retry_v1", first)
    assert await state(engine, child) == ("blocked", None, 2)
    await run(engine, first)
    assert await state(engine, child) == BLOCKED
    await run(engine, second)
    assert await state(engine, child) == READY


async def test_child_added_after_a_failure_runs_once_it_is_retried(
    engine: Engine, flow: Flow
) -> None:
    parent = await flow.add()
    await run(engine, parent, state="failed")
    child = await flow.add([(parent, "wait")])
    await engine.call("retry_v1", ids=[parent])
    await run(engine, parent)
    assert await state(engine, child) == READY


async def test_steps_with_one_unique_key_are_one_job(engine: Engine, flow: Flow) -> None:
    first, second, child = await flow.add_unique(["key", "key", None], after={3: 2})
    assert first == second
    assert await state(engine, child) == BLOCKED
    await run(engine, first)
    assert await state(engine, child) == READY


@pytest.mark.parametrize(
    ("keys", "after"), [(["key", "key"], {2: 1}), (["key", None, "key"], {2: 1, 3: 2})]
)
async def test_unique_step_that_would_wait_for_itself_is_refused(
    flow: Flow, keys: list[str | None], after: dict[int, int]
) -> None:
    with pytest.raises(asyncpg.PostgresError) as caught:
        await flow.add_unique(keys, "replace", after)
    assert caught.value.sqlstate == "PS015"


async def test_existing_unique_parent_is_not_counted_twice(engine: Engine, flow: Flow) -> None:
    [parent] = await flow.add_unique(["key"])
    child = await flow.add([parent])
    _, added = await flow.add_unique(["key", None], before={2: child})
    assert await state(engine, child) == ("blocked", None, 2)
    await run(engine, parent, added)
    assert await state(engine, child) == READY


async def test_of_two_policies_for_one_edge_the_most_careful_holds(
    engine: Engine, flow: Flow
) -> None:
    parent = await flow.add()
    child = await flow.add([(parent, "wait"), (parent, "cancel"), (parent, "continue")])
    await run(engine, parent, state="failed")
    assert await state(engine, child) == CANCELLED


async def test_a_workflow_is_retried_from_what_failed(engine: Engine, flow: Flow) -> None:
    done = await flow.add()
    broken = await flow.add([done])
    below = await flow.add([broken])
    last = await flow.add([below, done])
    await run(engine, done)
    await run(engine, broken, state="failed")
    assert await engine.value("retry_workflow_v1", workflow=flow.id) == 3
    assert await state(engine, done) == ("completed", None, 0)
    assert await state(engine, broken) == READY
    assert await state(engine, below) == BLOCKED
    assert await state(engine, last) == BLOCKED
    for each in (broken, below, last):
        await run(engine, each)
    assert await engine.value("retry_workflow_v1", workflow=flow.id) == 0
    assert await engine.value("retry_workflow_v1", workflow=999) is None


async def test_retried_child_waits_for_its_live_parents_only(engine: Engine, flow: Flow) -> None:
    dead, live = await flow.add(), await flow.add()
    child = await flow.add([dead, live])
    await run(engine, dead, state="failed")
    assert await state(engine, child) == CANCELLED
    assert await engine.answers("retry_v1", child) == {child: "blocked"}
    assert await state(engine, child) == BLOCKED
    # The other one comes back as well: now it is waited for, too.
    await engine.answers("retry_v1", dead)
    assert await state(engine, child) == ("blocked", None, 2)
    await run(engine, dead)
    assert await state(engine, child) == BLOCKED
    await run(engine, live)
    assert await state(engine, child) == READY


async def test_all_of_a_workflow_is_cancelled(engine: Engine, flow: Flow) -> None:
    other = await (await Flow.new(engine)).add()
    top = await flow.add()
    child = await flow.add([(top, "continue")])
    await engine.claim(await engine.lease(), limit=1)
    assert await engine.value("cancel_workflow_v1", workflow=flow.id) == 2
    assert await engine.value("cancel_workflow_v1", workflow=flow.id) == 0
    assert await engine.value("cancel_workflow_v1", workflow=999) is None
    states = await engine.states()
    assert states[other] in ("ready", "running")
    assert states[top] == states[child] == "cancelled"


async def test_a_deleted_parent_cancels_those_that_wait_for_it(engine: Engine, flow: Flow) -> None:
    parent = await flow.add()
    child, patient = await flow.add([parent]), await flow.add([(parent, "wait")])
    await engine.answers("delete_v1", parent)
    assert await state(engine, child) == CANCELLED
    assert await state(engine, patient) == STALLED
    # Nobody can run the parent again; a person lets it go on.
    await engine.answers("unblock_v1", patient)
    await run(engine, patient)


async def test_a_deleted_child_is_forgotten(engine: Engine, flow: Flow) -> None:
    parent = await flow.add()
    child = await flow.add([parent])
    await engine.answers("delete_v1", child)
    await run(engine, parent)
    assert await engine.connection.fetchval("SELECT count(*) FROM penstock.dependency") == 0


async def test_new_jobs_are_put_before_one_that_waits(engine: Engine, flow: Flow) -> None:
    splitter = await flow.add()
    merge = await flow.add([splitter])
    ready = await flow.add()
    parts = await flow.add_all([([splitter], [merge, ready], f"part {n}") for n in range(3)])
    assert await state(engine, merge) == ("blocked", None, 4)
    assert await state(engine, ready) == ("blocked", None, 3)
    await run(engine, splitter)
    await run(engine, *parts)
    await run(engine, merge, ready)


@pytest.mark.parametrize("end", ["running", "completed"])
async def test_one_that_has_started_cannot_be_made_to_wait(
    engine: Engine, flow: Flow, end: str
) -> None:
    job = await flow.add()
    if end == "completed":
        await run(engine, job)
    else:
        await engine.claim(await engine.lease())
    with pytest.raises(asyncpg.PostgresError, match="has started") as refused:
        await flow.add(before=[job])
    assert refused.value.sqlstate == "PS014"


async def test_edges_stay_within_one_workflow_and_tenant(engine: Engine, flow: Flow) -> None:
    stranger = await (await Flow.new(engine)).add()
    for after, before, code in (([stranger], [], "PS013"), ([], [stranger], "PS014")):
        with pytest.raises(asyncpg.PostgresError) as refused:
            await flow.add(after, before)
        assert refused.value.sqlstate == code
    for id, code in ((999, "PS016"), ((await Flow.new(engine, "acme")).id, "PS007")):
        with pytest.raises(asyncpg.PostgresError) as refused:
            await Flow(engine, id).add()
        assert refused.value.sqlstate == code


async def test_a_cycle_is_refused_and_named(engine: Engine, flow: Flow) -> None:
    a = await flow.add()
    b = await flow.add([a])
    c = await flow.add([b])
    with pytest.raises(asyncpg.PostgresError) as refused:
        await flow.add([c], [b])
    assert refused.value.sqlstate == "PS015"
    assert f"{b} → {c} → " in str(refused.value)
    # In the same call one may be behind another without a cycle.
    merge = await flow.add([c])
    await flow.add_all([([a], [c], "x"), ([c], [merge], "y")])


async def test_a_cycle_in_a_wide_graph_is_found_at_once(engine: Engine, flow: Flow) -> None:
    root = await flow.add()
    layer = [root]
    for _ in range(8):
        layer = await flow.add_all([(layer, (), "x")] * 12)
    last = await flow.add(layer)
    await engine.connection.execute("SET statement_timeout = '30s'")
    with pytest.raises(asyncpg.PostgresError) as refused:
        await flow.add([last], [root])
    assert refused.value.sqlstate == "PS015"


async def test_only_the_owning_attempt_reads_a_jobs_parents(engine: Engine, flow: Flow) -> None:
    good, bad = await flow.add(step="good"), await flow.add(step="bad")
    child = await flow.add([good, (bad, "continue")])
    await run(engine, good, results='{"a": 1}')
    await run(engine, bad, state="failed", errors='{"type": "E", "message": "broken"}')
    # An edge that somebody has written to a job of another workflow shows nothing.
    stranger = await (await Flow.new(engine)).add()
    await engine.connection.execute(
        "INSERT INTO penstock.dependency (workflow, parent, child) VALUES ($1, $2, $3)",
        *(flow.id, stranger, child),
    )
    [attempt] = [each for each in await engine.claim(await engine.lease()) if each["id"] == child]
    rows = await engine.call("read_parents_v1", job=child, token=attempt["token"])
    assert [(row["step"], row["state"], row["result"], row["error"]) for row in rows] == [
        ("good", "completed", '{"a": 1}', None),
        ("bad", "failed", None, "E: broken"),
    ]
    await engine.settle([attempt], states="ready")
    with pytest.raises(asyncpg.PostgresError) as refused:
        await engine.call("read_parents_v1", job=child, token=attempt["token"])
    assert refused.value.sqlstate == "PS003"
