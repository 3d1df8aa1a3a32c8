"""Jobs past their soft deadline."""

import asyncpg
import pytest

from penstock.insights import Count, Insights
from penstock.store import Store
from tests.fixtures.elapsed import Elapsed
from tests.insights.rows import fair, lease, plan, put, run, set_lane


@pytest.mark.parametrize(
    ("settings", "late_after"),
    [
        ((), None),
        (("queue",), 40),
        (("queue", "plan"), 30),
        (("queue", "plan", "tenant"), 20),
        (("queue", "plan", "tenant", "lane"), 10),
        (("plan",), 30),
    ],
)
async def test_the_most_specific_soft_deadline_holds(
    insights: Insights,
    connection: asyncpg.Connection,
    settings: tuple[str, ...],
    late_after: float | None,
) -> None:
    await fair(connection, late_after=40.0 if "queue" in settings else None)
    if "plan" in settings:
        await plan(connection, "gold", "acme", late_after=30.0)
    if "tenant" in settings:
        await connection.execute("UPDATE penstock.tenant_setting SET late_after = 20")
    if "lane" in settings:
        await set_lane(connection, "acme", late_after=10.0)
    elapsed = Elapsed()
    job = await put(connection, "acme", limits=["openai"], age=100)
    place = (await insights.job(str(job))).place
    assert place.late_after == late_after
    if late_after is None:
        assert place.late is None
    else:
        assert elapsed.explains(place.late - (100 - late_after))


async def test_a_job_that_has_ended_or_is_in_time_is_not_late(
    insights: Insights, connection: asyncpg.Connection
) -> None:
    await fair(connection, late_after=60.0)
    early = await put(connection, "acme", age=30)
    late = await put(connection, "acme", age=90)
    assert (await insights.job(str(early))).place.late is None
    assert (await insights.job(str(late))).place.late is not None
    await connection.execute("SELECT penstock.cancel_v1(ARRAY[$1::bigint])", late)
    assert (await insights.job(str(late))).place.late is None


async def test_a_queue_counts_what_is_late_of_all_that_is_not_done(
    insights: Insights, connection: asyncpg.Connection
) -> None:
    await fair(connection, late_after=60.0)
    await put(connection, "acme", jobs=3)
    ready = await put(connection, "bolt", jobs=2, age=100)
    await run(connection, await lease(connection, "ada"), ready)
    await put(connection, queue="default", age=100)
    found = {queue.name: queue for queue in await insights.queues()}
    assert (found["imports"].late, found["default"].late) == (Count(2), Count(0))
    assert (found["imports"].is_fair, found["default"].is_fair) == (True, False)
    [imports] = [each for each in await insights.queues(count_to=1) if each.name == "imports"]
    assert not imports.late.is_exact


async def test_the_latest_jobs_come_first_by_filter(
    insights: Insights, connection: asyncpg.Connection
) -> None:
    await fair(connection, late_after=60.0)
    in_time = await put(connection, "acme")
    acme = await put(connection, "acme", age=100)
    elapsed = Elapsed()
    bolt = await put(connection, "bolt", age=500, priority=-5)
    running = await put(connection, "cord", age=300)
    await run(connection, await lease(connection, "ada"), running)
    found = await insights.late()
    assert [int(job.id) for job, _ in found] == [bolt, running, acme]
    assert elapsed.explains(found[0][1] - 440)
    assert [int(job.id) for job, _ in await insights.late(1)] == [bolt]
    assert [int(job.id) for job, _ in await insights.late(tenant="acme")] == [acme]
    assert [int(job.id) for job, _ in await insights.late(states=["running"])] == [running]
    assert await insights.late(queue="default") == []
    jobs = await Store().get(connection, [in_time, acme])
    assert set(await insights.lateness(jobs)) == {str(acme)}
    assert await insights.lateness([]) == {}
