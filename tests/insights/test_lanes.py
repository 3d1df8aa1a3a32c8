"""What is seen of a queue's lanes."""

from datetime import UTC, datetime

import asyncpg
import pytest

from penstock.insights import Count, Insights
from penstock.insights import insights as reading
from tests.fixtures.elapsed import Elapsed
from tests.insights.rows import fair, lease, plan, put, run, set_lane

NEVER = '{"timezone": "UTC", "open": []}'
MANY = """
INSERT INTO penstock.job (state, task, queue, lane, tenant, run_at, ready_at)
SELECT 'ready', 'render', 'imports', 'tenant ' || n, 'tenant ' || n, now(), now()
  FROM generate_series(1, 10000) AS n
 CROSS JOIN generate_series(1, CASE WHEN n = 7777 THEN 5000 ELSE 3 END)
"""


async def test_largest_lane_comes_first_with_its_counts(
    insights: Insights, connection: asyncpg.Connection
) -> None:
    await fair(connection)
    elapsed = Elapsed()
    await put(connection, "acme", jobs=3, age=100)
    first = await put(connection, "bolt", jobs=5, limits=["openai", "account:7"])
    await run(connection, await lease(connection, "ada"), first)
    await put(connection, "acme", queue="elsewhere")
    found = await insights.lanes("imports")
    assert (found.queue, found.number, found.following) == ("imports", Count(2), None)
    bolt, acme = found.lanes
    assert (bolt.name, bolt.limits) == ("bolt", ("account:7", "openai"))
    assert (bolt.ready, bolt.running, bolt.late) == (Count(4), Count(1), Count(0))
    assert (acme.name, acme.limits, acme.ready) == ("acme", (), Count(3))
    assert elapsed.explains(acme.waited - 100)
    assert (acme.weight, acme.is_paused, acme.window.is_open) == (1, False, True)


async def test_a_lanes_weight_is_its_own_or_its_plans(
    insights: Insights, connection: asyncpg.Connection
) -> None:
    await fair(connection)
    await plan(connection, "gold", "acme", weight=5)
    for tenant in ("acme", "bolt", "cord"):
        await put(connection, tenant)
    await set_lane(connection, "bolt", weight=3)
    assert await weights(insights) == {"acme": 5, "bolt": 3, "cord": 1}
    await set_lane(connection, "acme", weight=2)
    assert (await weights(insights))["acme"] == 2
    await connection.execute("DELETE FROM penstock.lane_setting")
    await connection.execute("UPDATE penstock.queue SET lane_key = 'task'")
    assert (await weights(insights))["acme"] == 1, "its lanes are not tenants"


async def weights(insights: Insights) -> dict[str, int]:
    return {lane.name: lane.weight for lane in (await insights.lanes("imports")).lanes}


async def test_a_lane_that_is_held_back_says_by_what(
    insights: Insights, connection: asyncpg.Connection
) -> None:
    await fair(connection)
    await set_lane(connection, "acme", paused_at=datetime.now(UTC))
    await set_lane(connection, "bolt", windows=NEVER)
    acme, bolt = sorted((await insights.lanes("imports")).lanes, key=lambda lane: lane.name)
    assert (acme.is_paused, acme.window.is_open, acme.ready) == (True, True, Count(0))
    assert (bolt.is_paused, bolt.window.is_shut) == (False, True)
    await connection.execute("UPDATE penstock.queue SET windows = $1", NEVER)
    assert all(lane.window.is_shut for lane in (await insights.lanes("imports")).lanes)


async def test_jobs_past_the_soft_deadline_of_their_lane_are_counted(
    insights: Insights, connection: asyncpg.Connection
) -> None:
    await fair(connection, late_after=60.0)
    await set_lane(connection, "bolt", late_after=3600.0)
    for tenant in ("acme", "bolt"):
        await put(connection, tenant, jobs=2, age=100)
        await put(connection, tenant)
    acme, bolt = sorted((await insights.lanes("imports")).lanes, key=lambda lane: lane.name)
    assert (acme.late, bolt.late) == (Count(2), Count(0))


async def test_a_queue_without_lanes(insights: Insights, connection: asyncpg.Connection) -> None:
    found = await insights.lanes("imports")
    assert (found.lanes, found.number) == ((), Count(0))
    await put(connection, "acme")
    [lane] = (await insights.lanes("imports")).lanes
    assert (lane.name, lane.ready) == ("", Count(1)), "a plain queue has one"


async def test_the_largest_of_ten_thousand_lanes_is_found_at_once(
    insights: Insights, connection: asyncpg.Connection
) -> None:
    await fair(connection, late_after=60.0)
    await connection.execute(MANY)
    taken: list[float] = []
    for _ in range(3):
        elapsed = Elapsed()
        found = await insights.lanes("imports", limit=20)
        taken.append(elapsed.seconds)
    assert (len(found.lanes), found.number, found.following) == (20, Count(10_000), None)
    assert (found.lanes[0].name, found.lanes[0].ready) == ("tenant 7777", Count(5000))
    assert {lane.ready.number for lane in found.lanes[1:]} == {3}
    assert min(taken) < 5, "some hundred milliseconds on an idle machine"


async def test_more_lanes_than_are_looked_at_come_in_pages(
    insights: Insights, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_LANES_SCANNED", 3)
    await fair(connection)
    for tenant in ("a", "b", "c", "d", "e"):
        await put(connection, tenant, limits=["openai"])
    first = await insights.lanes("imports")
    assert [lane.name for lane in first.lanes] == ["a", "b", "c"]
    assert (first.number.is_exact, first.following) == (False, "d")
    second = await insights.lanes("imports", start="d")
    assert [lane.name for lane in second.lanes] == ["d", "e"]
    assert (second.number, second.following) == (Count(2), None)
