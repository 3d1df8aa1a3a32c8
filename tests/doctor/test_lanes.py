"""Lanes, limits, windows and soft deadlines, healthy and ill."""

import json
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from tests.doctor.examined import ERROR, OK, WARNING, Examined
from tests.insights.rows import bucket, fair, grant, lease, limit, put, run, set_lane

SHUT = '{"timezone": "UTC", "open": []}'
MANY = """
INSERT INTO penstock.job (state, task, queue, lane, tenant, run_at, ready_at)
SELECT 'ready', 'render', 'imports', 'tenant ' || n, 'tenant ' || n, now(), now()
  FROM generate_series(1, 10000) AS n
"""
CHECKS = (
    *("idle-grants", "unserved-tenants", "paused-lanes", "closed-windows", "shut-limits"),
    *("closed-buckets", "laneless-jobs", "late-jobs"),
)


async def worker(connection: asyncpg.Connection, name: str, **info: Any) -> int:
    return await lease(connection, name, info=json.dumps({"queues": {"imports": 4}} | info))


async def test_a_fair_queue_that_is_served_is_fine(
    connection: asyncpg.Connection, examined: Examined
) -> None:
    await fair(connection, late_after=60.0)
    await set_lane(connection, "bolt", paused_at=datetime.now(UTC), windows=SHUT)
    await limit(connection, "another", slots=0)
    await put(connection, "acme", jobs=120, age=40, limits=["openai"])
    await worker(connection, "ada")
    report = await examined.report(*CHECKS)
    assert {result.check.name: result.verdict for result in report.results} == dict.fromkeys(
        CHECKS, OK
    )


async def test_ten_thousand_lanes_are_looked_at_in_time(
    connection: asyncpg.Connection, examined: Examined
) -> None:
    await fair(connection, late_after=3600.0)
    await limit(connection, "lane:imports:*", slots=0)
    await connection.execute(MANY)
    report = await examined.report(*CHECKS, reading=30)
    assert [result.check.name for result in report.results if result.verdict is not OK] == [
        "shut-limits"
    ]
    assert sum(result.seconds for result in report.results) < 20


async def test_late_jobs_are_told_by_queue(
    connection: asyncpg.Connection, examined: Examined
) -> None:
    await fair(connection, late_after=60.0)
    await put(connection, "acme", jobs=3, age=100)
    await run(connection, await worker(connection, "ada"), await put(connection, "bolt", age=500))
    await put(connection, "cord")
    [finding] = await examined("late-jobs")
    assert finding.verdict is WARNING
    assert "The queue imports has 4 jobs in 2 lanes past the soft deadline" in finding.seen
    assert "the latest by 7 min 2" in finding.seen
    assert finding.paste[0] == "penstock jobs list --late --queue imports"
    [finding] = await examined("late-jobs", sample_jobs=2)
    assert "2 or more jobs" in finding.seen


async def test_jobs_in_paused_lanes_are_told_with_the_way_to_resume(
    connection: asyncpg.Connection, examined: Examined
) -> None:
    await fair(connection)
    for lane in ("acme", "a b"):
        await set_lane(connection, lane, paused_at=datetime.now(UTC))
        await put(connection, lane, limits=["openai"], age=90)
        await put(connection, lane)
    [finding] = await examined("paused-lanes")
    assert finding.verdict is WARNING
    assert "2 lanes of the queue imports that are paused: a b, acme" in finding.seen
    assert finding.paste == (
        "penstock lanes set imports 'a b' --resume",
        "penstock lanes set imports acme --resume",
    )


@pytest.mark.parametrize("whose", ["queue", "lane"])
async def test_a_window_that_never_opens_is_told_if_jobs_wait_for_it(
    connection: asyncpg.Connection, examined: Examined, whose: str
) -> None:
    await fair(connection, windows=SHUT if whose == "queue" else None)
    await set_lane(connection, "acme", windows=SHUT if whose == "lane" else None)
    [finding] = await examined("closed-windows")
    assert finding.verdict is OK, "nothing waits for it"
    await put(connection, "acme")
    [finding] = await examined("closed-windows")
    assert finding.verdict is ERROR
    assert "The windows of 1 lane of the queue imports never open: acme." in finding.seen


async def test_a_window_that_opens_later_is_fine(
    connection: asyncpg.Connection, examined: Examined
) -> None:
    hour = (datetime.now(UTC).hour + 12) % 24
    later = f'{{"timezone": "UTC", "open": [{{"from": "{hour:02}:00", "to": "{hour:02}:30"}}]}}'
    await fair(connection, windows=later)
    await put(connection, "acme")
    [finding] = await examined("closed-windows")
    assert finding.verdict is OK


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("openai", "openai"),
        ("queue:imports", "queue:imports"),
        ("lane:imports:*", "lane:imports:acme"),
    ],
)
async def test_closed_limit_is_reported_if_jobs_wait_for_it(
    connection: asyncpg.Connection, examined: Examined, key: str, told: str
) -> None:
    await fair(connection)
    await limit(connection, key, slots=0)
    [finding] = await examined("shut-limits")
    assert finding.verdict is OK, "nothing waits for it"
    await put(connection, "acme", limits=["openai"])
    [finding] = await examined("shut-limits")
    assert finding.verdict is WARNING
    assert f"The limit {told} has no slots or no rate" in finding.seen
    await connection.execute("UPDATE penstock.limit_setting SET slots = 1")
    [finding] = await examined("shut-limits")
    assert finding.verdict is OK


async def test_long_closed_bucket_is_reported_with_its_remedy(
    connection: asyncpg.Connection, examined: Examined
) -> None:
    await bucket(connection, "openai", 1, closed=300)
    [finding] = await examined("closed-buckets")
    assert finding.verdict is OK
    [finding] = await examined("closed-buckets", closed=60)
    assert finding.verdict is WARNING
    assert "The bucket openai is closed for another 4 min 5" in finding.seen
    assert finding.paste == ("penstock limits open openai",)


async def test_slots_that_are_waited_for_and_used_by_nobody_are_told(
    connection: asyncpg.Connection, examined: Examined
) -> None:
    await fair(connection)
    await limit(connection, "openai", slots=2)
    ada, bo = await worker(connection, "ada"), await worker(connection, "bo")
    job = await put(connection, "acme", limits=["openai"])
    await grant(connection, ada, "openai", 2)
    [finding] = await examined("idle-grants", idle_grant=0)
    assert finding.verdict is OK, "nobody waits"
    await grant(connection, bo, "openai", 0, wanted=2)
    [finding] = await examined("idle-grants", idle_grant=0)
    assert finding.verdict is ERROR
    assert "bo waits for slots of the limit openai, and no job runs with it" in finding.seen
    assert "2 of 2 slots are granted, held by ada" in finding.seen
    await limit(connection, "api", rate=1.0, burst=5.0)
    await bucket(connection, "api", -50)
    [finding] = await examined("idle-grants", idle_grant=0)
    assert finding.verdict is OK, "they may wait for a rate"
    await connection.execute("DELETE FROM penstock.bucket")
    await run(connection, ada, job)
    [finding] = await examined("idle-grants", idle_grant=0)
    assert finding.verdict is OK, "one runs"


async def test_tenants_whom_no_dedicated_worker_serves_are_told(
    connection: asyncpg.Connection, examined: Examined
) -> None:
    await fair(connection)
    await worker(connection, "big", tenants=["bolt"])
    for tenant in ("acme", "bolt"):
        await put(connection, tenant, age=100)
    await put(connection, "cord")
    [finding] = await examined("unserved-tenants")
    assert finding.verdict is ERROR
    assert "jobs of 1 tenant whom none of its living workers serves: 'acme'." in finding.seen
    assert finding.paste[0] == "penstock work APP --queue imports --tenant acme"
    await worker(connection, "rest", except_tenants=["bolt"])
    [finding] = await examined("unserved-tenants")
    assert finding.verdict is OK


async def test_a_fair_queue_whose_jobs_have_no_tenant_is_told(
    connection: asyncpg.Connection, examined: Examined
) -> None:
    await fair(connection)
    await put(connection, jobs=5)
    [finding] = await examined("laneless-jobs")
    assert finding.verdict is OK, "a few may well have none"
    [finding] = await examined("laneless-jobs", laneless_jobs=5)
    assert finding.verdict is WARNING
    assert "The queue imports is fair, but 5 or more jobs wait in it without" in finding.seen
    await put(connection, "acme")
    [finding] = await examined("laneless-jobs", laneless_jobs=5)
    assert finding.verdict is OK
