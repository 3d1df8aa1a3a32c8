"""What is seen of limits, and of the workers that hold their slots."""

from datetime import UTC, datetime

import asyncpg
import pytest

from penstock.insights import Count, Grant, Insights, LimitInsight
from penstock.insights import insights as reading
from tests.fixtures.elapsed import Elapsed
from tests.insights.rows import bucket, fair, grant, lease, limit, put


async def test_a_limit_shows_who_holds_its_slots_and_who_waits(
    insights: Insights, connection: asyncpg.Connection
) -> None:
    await limit(connection, "openai", slots=3)
    await limit(connection, "quiet", slots=9)
    ada, bo = await lease(connection, "ada"), await lease(connection, "bo")
    gone = await lease(connection, "gone", seconds=0)
    await grant(connection, ada, "openai", 3)
    await grant(connection, bo, "openai", 0, wanted=2)
    await grant(connection, gone, "openai", 7)
    found = await insights.limits()
    assert found.number == Count(2)
    openai, quiet = found.limits
    assert (openai.key, openai.rule, openai.slots) == ("openai", "openai", 3)
    assert (openai.granted, openai.wanting, openai.is_full) == (3, 2, True)
    told = [(each.worker, each.slots, each.waits) for each in openai.workers]
    assert told == [("ada", 3, False), ("bo", 0, True)]
    assert (quiet.granted, quiet.is_full, quiet.workers, quiet.level) == (0, False, (), None)
    workers = {worker.name: worker for worker in await insights.workers()}
    assert workers["ada"].grants == (Grant(key="openai", slots=3, wanted=3),)
    assert workers["bo"].grants == (Grant(key="openai", slots=0, wanted=2),)


async def test_each_key_in_use_under_a_pattern_is_shown_by_itself(
    insights: Insights, connection: asyncpg.Connection
) -> None:
    await limit(connection, "account:*", slots=2)
    await limit(connection, "account:big*", slots=20)
    await limit(connection, "account:big1", slots=200)
    ada = await lease(connection, "ada")
    for key in ("account:7", "account:big1", "account:big2", "removed"):
        await grant(connection, ada, key, 1)
    await bucket(connection, "removed long ago", 1, closed=60)
    found = {each.key: each for each in (await insights.limits()).limits}
    assert [found[key].rule for key in ("account:7", "account:big1", "account:big2")] == [
        *("account:*", "account:big1", "account:big*"),
    ]
    assert (found["account:big2"].slots, found["account:big2"].is_pattern) == (20, False)
    assert (found["account:*"].is_pattern, found["account:*"].granted) == (True, 0)
    assert (found["removed"].rule, found["removed"].slots) == (None, None)
    assert "removed long ago" not in found


async def test_a_bucket_shows_its_level_now(
    insights: Insights, connection: asyncpg.Connection
) -> None:
    await limit(connection, "api:*", rate=0.1, burst=10.0)
    elapsed = Elapsed()
    for key, level, age in (("api:a", 0.0, 50), ("api:b", 9.0, 3600), ("api:c", -4.0, 0)):
        await bucket(connection, key, level, age=age)
    found = {each.key: each for each in (await insights.limits()).limits}
    assert elapsed.explains((found["api:a"].level - 5) / 0.1)
    assert (found["api:b"].level, found["api:b"].refills_in) == (10, 0)
    assert elapsed.explains(50 - found["api:c"].refills_in)
    assert (found["api:*"].level, found["api:*"].burst) == (None, 10)


async def test_a_closed_bucket_says_until_when(
    insights: Insights, connection: asyncpg.Connection
) -> None:
    await limit(connection, "api", rate=1.0, burst=1.0)
    await limit(connection, "another", rate=1.0, burst=1.0)
    elapsed = Elapsed()
    await bucket(connection, "api", 1, closed=120)
    await bucket(connection, "another", 1, closed=-1)
    api, another = (await insights.limits()).limits
    assert api.closed_until is not None
    assert elapsed.explains(120 - (api.closed_until - datetime.now(UTC)).total_seconds())
    assert another.closed_until is None, "that was a second ago"


async def test_only_so_many_are_shown_and_those_waited_for_first(
    insights: Insights, connection: asyncpg.Connection
) -> None:
    await connection.execute(
        "INSERT INTO penstock.limit_setting (key, slots) "
        "SELECT 'account:' || n, 1 FROM generate_series(1, 300) AS n"
    )
    ada = await lease(connection, "ada")
    await grant(connection, ada, "account:99", 0, wanted=1)
    await grant(connection, ada, "account:98", 1)
    found = await insights.limits(limit=3)
    assert [each.key for each in found.limits] == ["account:99", "account:98", "account:1"]
    assert found.number == Count(300)


async def test_closed_limits_come_first_with_their_waiting_jobs(
    insights: Insights, connection: asyncpg.Connection
) -> None:
    await fair(connection)
    await put(connection, "acme", jobs=3, limits=["hot", "account:1", "account:2"])
    await put(connection, "bolt", jobs=2, limits=["hot"], priority=5)
    await put(connection, "acme", queue="mail", jobs=4)
    ada = await lease(connection, "ada")
    for key, slots in (("a quiet one", 9), ("queue:imports", 9), ("account:*", 0), ("hot", 0)):
        await limit(connection, key, slots=slots)
    await limit(connection, "lane:imports:*", slots=0)
    await limit(connection, "queue:mail", rate=0.001, burst=1.0)
    await bucket(connection, "queue:mail", 0.5)
    await grant(connection, ada, "queue:imports", 1)
    found = await insights.limits()
    assert [(each.key, each.ready) for each in found.limits] == [
        ("account:*", Count(3)),
        ("hot", Count(5)),
        ("lane:imports:*", Count(5)),
        ("queue:mail", Count(4)),
        ("queue:imports", Count(5)),
        ("a quiet one", Count(0)),
    ]
    assert found.number == Count(6)
    [asked] = (await insights.limits(["hot"], limit=1)).limits
    assert asked.ready is None


async def test_jobs_that_wait_for_limits_are_counted_only_so_far(
    insights: Insights, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fair(connection)
    for tenant in ("acme", "bolt", "corp"):
        await put(connection, tenant, jobs=3)
    await limit(connection, "queue:imports", slots=0)
    monkeypatch.setattr(reading, "MAX_COUNTED_OFTEN", 6)
    assert (await insights.limits()).limits[0].ready == Count(6, is_exact=False)
    monkeypatch.setattr(reading, "MAX_LANES_SCANNED", 1)
    assert (await insights.limits()).limits[0].ready == Count(6, is_exact=False)


def test_what_refills_never_has_no_time() -> None:
    limit = LimitInsight(
        key="api", rule="api", slots=None, granted=0, wanting=0, ready=None, workers=(), rate=0.0,
        burst=5.0, level=0.0, closed_until=None,
    )  # fmt: skip
    assert limit.refills_in is None
