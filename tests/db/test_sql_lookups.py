"""A look-up by id locks little of the history, however long that is kept, and misses no job."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import date, timedelta

import asyncpg
import pytest

from penstock.store import Store
from penstock.store.insights import LiveQueries
from penstock.store.workflows import Workflows
from tests.db.engine import NOON, Engine
from tests.db.flows import Flow

MISSING = 10**12
# Four partitions with five indexes each are read at a time, and there is their parent with its own.
FEW_LOCKS = 5 * 6
STORE = Store()
LOCKS = """
SELECT count(DISTINCT l.relation) FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation
 WHERE l.pid = pg_backend_pid() AND c.relname ~ '^job_history'
"""

Call = Callable[[asyncpg.Connection, int], Awaitable[object]]

READS: dict[str, Call] = {
    "get": lambda on, job: STORE.get(on, [job]),
    "states": lambda on, job: STORE.states(on, [job]),
    "watch": lambda on, job: LiveQueries(STORE).jobs(on, [job], 1000),
}
CHANGES: dict[str, Call] = {
    "cancel": lambda on, job: STORE.cancel(on, [job], "requested"),
    "retry": lambda on, job: STORE.retry(on, [job]),
    "delete": lambda on, job: STORE.delete(on, [job]),
}


# Those that were made on the days before, while their time has not come.
MADE_BEFORE = """
SELECT array_agg(DISTINCT d.day)
  FROM generate_series(1, 401) AS ago,
       LATERAL (SELECT penstock.expires_on_v1($1::date - ago, 400) AS day) AS d
 WHERE d.day >= $1::date
"""


async def a_year_of_history(engine: Engine) -> None:
    """The partitions of a queue that has kept failed jobs for 400 days all the time."""
    await engine.connection.execute(
        "INSERT INTO penstock.retention (state, days) VALUES ('failed', 400)"
    )
    days = await engine.connection.fetchval(MADE_BEFORE, NOON.date())
    await engine.value("ensure_partitions_v1", also=days)


async def locks_of(engine: Engine, call: Call, job: int) -> int:
    """How many locks on the history a call holds when it is done."""
    async with engine.connection.transaction():
        await call(engine.connection, job)
        return int(await engine.connection.fetchval(LOCKS))


async def test_a_year_of_history_has_few_partitions(engine: Engine) -> None:
    await a_year_of_history(engine)
    days = await engine.value("list_partitions_v1")
    assert 30 <= len(days) <= 36
    assert max(days) > NOON.date() + timedelta(days=400)


async def test_a_look_at_a_live_job_locks_nothing_of_the_history(engine: Engine) -> None:
    await a_year_of_history(engine)
    [job] = await engine.enqueue()
    for name, call in READS.items():
        assert await locks_of(engine, call, job) == 0, name


async def test_a_look_at_any_job_locks_little_of_a_year_of_history(engine: Engine) -> None:
    await a_year_of_history(engine)
    attempts = [await engine.attempt() for _ in range(3)]
    await engine.settle(attempts[:1])
    await engine.settle(attempts[1:], states="failed", reasons="exhausted")
    old, new, failed = [attempt["id"] for attempt in attempts]
    await engine.connection.execute(
        "UPDATE penstock.job_history SET expires_on = $2 WHERE id = $1", old, NOON.date()
    )
    for name, call in (READS | CHANGES).items():
        for job in (old, new, failed, MISSING):
            assert await locks_of(engine, call, job) <= FEW_LOCKS, name
            await engine.connection.execute("DELETE FROM penstock.job")


WORKFLOWS = Workflows(STORE)
LOOKS_AT_WORKFLOWS: dict[str, Call] = {
    "look": lambda on, flow: WORKFLOWS.find(on, flow),
    "look at steps": lambda on, flow: WORKFLOWS.steps(on, flow),
    "list": lambda on, flow: WORKFLOWS.page(on, None, flow + 1, 100),
    "name": lambda on, flow: on.fetchval("SELECT penstock.resolve_steps_v1($1, '{step}')", flow),
    "retry": lambda on, flow: WORKFLOWS.retry(on, flow, None),
}


async def a_flow_of_every_state(engine: Engine) -> tuple[Flow, list[int]]:
    """One job lives, and one has been cancelled in each partition of the history."""
    flow = await Flow.new(engine)
    days = await engine.value("list_partitions_v1")
    jobs = [await flow.add()] + [await flow.add(step=f"step {n}") for n in range(len(days))]
    await engine.answers("cancel_v1", *jobs[1:])
    for job, day in zip(jobs[1:], days, strict=True):
        await engine.connection.execute(
            "UPDATE penstock.job_history SET expires_on = $2 WHERE id = $1",
            job,
            day or date(2000, 2, 2),
        )
    return flow, jobs


async def test_a_look_at_a_workflow_locks_little_of_a_year_of_history(engine: Engine) -> None:
    await a_year_of_history(engine)
    flow = await Flow.new(engine)
    await flow.add()
    failed = await flow.add(step="failed")
    await engine.answers("cancel_v1", failed)
    for name, call in LOOKS_AT_WORKFLOWS.items():
        assert await locks_of(engine, call, flow.id) <= FEW_LOCKS, name


async def test_workflow_lookups_find_each_job_once_in_any_partition(engine: Engine) -> None:
    await a_year_of_history(engine)
    await engine.connection.execute(
        "CREATE TABLE penstock.job_history_old PARTITION OF penstock.job_history"
        " FOR VALUES FROM (MINVALUE) TO ('2001-01-01')"
    )
    flow, jobs = await a_flow_of_every_state(engine)
    other = await Flow.new(engine)
    await other.add()
    empty = await Flow.new(engine)
    steps = await WORKFLOWS.steps(engine.connection, flow.id)
    assert [step["id"] for step in steps] == jobs
    found = await WORKFLOWS.find(engine.connection, flow.id)
    page = await WORKFLOWS.page(engine.connection, None, None, 100)
    assert found is not None
    assert (found["ready"], found["cancelled"]) == (1, len(jobs) - 1)
    assert [row["id"] for row in page] == [empty.id, other.id, flow.id]
    assert page[2] == found
    assert (page[1]["ready"], page[1]["cancelled"], page[0]["ready"]) == (1, 0, 0)
    assert page[0] == await WORKFLOWS.find(engine.connection, empty.id)
    assert await WORKFLOWS.retry(engine.connection, flow.id, None) == len(jobs) - 1


async def test_jobs_of_many_days_are_found_in_one_look(engine: Engine) -> None:
    await a_year_of_history(engine)
    jobs = await engine.enqueue(20)
    await engine.answers("cancel_v1", *jobs[5:])
    days = await engine.connection.fetchval("SELECT penstock.list_partitions_v1()")
    for job, day in zip(jobs[5:], days, strict=False):
        await engine.connection.execute(
            "UPDATE penstock.job_history SET expires_on = $2 WHERE id = $1", job, day
        )
    found = await STORE.get(engine.connection, [*jobs, MISSING])
    assert sorted(int(job.id) for job in found) == jobs
    dates = await engine.value("history_dates_v1", ids=[*jobs, MISSING])
    assert sorted(dates) == sorted(days[: len(jobs) - 5])


async def test_a_partition_that_somebody_made_by_hand_is_read_too(engine: Engine) -> None:
    await engine.connection.execute(
        "CREATE TABLE penstock.job_history_old PARTITION OF penstock.job_history"
        " FOR VALUES FROM (MINVALUE) TO ('2001-01-01')"
    )
    [job] = await engine.enqueue()
    await engine.answers("cancel_v1", job)
    await engine.connection.execute("UPDATE penstock.job_history SET expires_on = '2000-02-02'")
    [found] = await STORE.get(engine.connection, [job])
    assert found.state == "cancelled"
    assert await engine.answers("retry_v1", job) == {job: "ready"}


async def test_a_step_that_comes_and_goes_is_always_found(engine: Engine, other: Engine) -> None:
    flow = await Flow.new(engine)
    job = await flow.add()
    is_over = asyncio.Event()

    async def move() -> None:
        for _ in range(40):
            assert await other.answers("cancel_v1", job) == {job: "cancelled"}
            assert await other.answers("retry_v1", job) == {job: "ready"}
        is_over.set()

    moving = asyncio.create_task(move())
    while not (is_over.is_set() or moving.done()):
        [step] = await WORKFLOWS.steps(engine.connection, flow.id)
        assert step["id"] == job
    await moving


@pytest.mark.parametrize("how", READS)
async def test_a_job_that_comes_and_goes_is_always_found(
    engine: Engine, other: Engine, how: str
) -> None:
    """It moves between the live table and the history while somebody looks."""
    [job] = await engine.enqueue()
    is_over = asyncio.Event()

    async def move() -> None:
        for _ in range(60):
            assert await other.answers("cancel_v1", job) == {job: "cancelled"}
            assert await other.answers("retry_v1", job) == {job: "ready"}
        is_over.set()

    moving = asyncio.create_task(move())
    while not is_over.is_set():
        found = await READS[how](engine.connection, job)
        assert isinstance(found, list)
        assert len(found) == 1
        if moving.done():
            break
    await moving
