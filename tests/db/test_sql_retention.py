"""How long the history of a job is kept is decided once, when it ends."""

from datetime import date, timedelta

import asyncpg
import pytest

from tests.db.engine import NOON, Engine

TODAY = NOON.date()


async def keep(engine: Engine, state: str, days: int, queue: str = "", tenant: str = "") -> None:
    await engine.connection.execute(
        "INSERT INTO penstock.retention (state, days, queue, tenant) VALUES ($1, $2, $3, $4)",
        state,
        days,
        queue,
        tenant,
    )


async def kept_until(engine: Engine, state: str, queue: str = "default", tenant: str = "") -> date:
    """The day on which a job that ends now expires."""
    engine.now = NOON
    attempt = await engine.attempt(queues=queue, tenants=tenant)
    assert await engine.settle([attempt], states=state, reasons="some") == {}
    expires_on: date = (await engine.job(attempt["id"]))["expires_on"]
    return expires_on


async def kept_for(engine: Engine, state: str, queue: str = "default", tenant: str = "") -> int:
    """Whole days for which a job that ends now is kept."""
    return (await kept_until(engine, state, queue, tenant) - TODAY).days - 1


def next_monday(days: int) -> date:
    """The first Monday after so many whole days."""
    day = TODAY + timedelta(days=days + 1)
    return day + timedelta(days=-day.weekday() % 7)


@pytest.mark.parametrize("state", ["completed", "cancelled"])
async def test_without_a_rule_jobs_are_kept_for_a_week(engine: Engine, state: str) -> None:
    assert await kept_for(engine, state) == 7


async def test_failed_jobs_are_kept_a_month_by_default(engine: Engine) -> None:
    assert await kept_until(engine, "failed") == next_monday(30)


@pytest.mark.parametrize(
    ("ended", "days", "expires"),
    [
        ("2026-05-06", 0, "2026-05-07"),
        ("2026-05-06", 14, "2026-05-21"),  # a Thursday: up to 14 days it is exact
        ("2026-05-06", 15, "2026-05-25"),  # from here on the next Monday
        ("2026-05-10", 14 + 7, "2026-06-01"),  # a Monday itself
        ("2026-05-06", 90, "2026-08-10"),
        ("2026-05-06", 91, "2026-09-01"),  # from here on the first of the next month
        ("2026-05-01", 122, "2026-09-01"),  # a first itself
        ("2026-05-06", 400, "2027-07-01"),
    ],
)
async def test_longer_retention_rounds_the_expiry_day_coarser(
    engine: Engine, ended: str, days: int, expires: str
) -> None:
    day = date.fromisoformat(ended)
    found = await engine.connection.fetchval("SELECT penstock.expires_on_v1($1, $2)", day, days)
    assert found == date.fromisoformat(expires)


async def test_no_job_goes_before_its_time_nor_much_later(engine: Engine) -> None:
    longer = await engine.connection.fetch(
        """SELECT days, min(day - ended - days - 1), max(day - ended - days - 1)
             FROM generate_series(0, 400) AS days, generate_series(0, 366) AS d,
                  LATERAL (SELECT date '2026-01-01' + d AS ended) AS e,
                  LATERAL (SELECT penstock.expires_on_v1(ended, days) AS day) AS l
            GROUP BY days"""
    )
    latest = {row["days"]: row["max"] for row in longer}
    assert {row["min"] for row in longer} == {0}
    assert {latest[days] for days in range(15)} == {0}
    assert {latest[days] for days in range(15, 91)} == {6}
    assert {latest[days] for days in range(91, 401)} == {30}


async def test_the_most_specific_rule_wins(engine: Engine) -> None:
    await keep(engine, "completed", 1)
    await keep(engine, "completed", 2, queue="mail")
    await keep(engine, "completed", 3, tenant="acme")
    await keep(engine, "completed", 4, queue="mail", tenant="acme")
    assert await kept_for(engine, "completed") == 1
    assert await kept_for(engine, "completed", queue="mail") == 2
    assert await kept_for(engine, "completed", tenant="acme") == 3
    assert await kept_for(engine, "completed", queue="mail", tenant="acme") == 4
    assert await kept_for(engine, "completed", queue="mail", tenant="globex") == 2
    assert await kept_until(engine, "failed", queue="mail", tenant="acme") == next_monday(30)


async def test_a_rule_can_keep_nothing_beyond_the_day(engine: Engine) -> None:
    await keep(engine, "completed", 0)
    assert await kept_for(engine, "completed") == 0


async def test_cancelled_expired_and_lost_jobs_follow_the_rules(engine: Engine) -> None:
    engine.now = NOON
    await keep(engine, "cancelled", 3)
    await keep(engine, "failed", 5)
    [cancelled, expired] = await engine.enqueue(2, deadlines=NOON)
    await engine.answers("cancel_v1", cancelled, now=NOON)
    await engine.value("expire_v1", now=NOON)
    lost = await engine.begun(await engine.lease(ttl=60))
    await engine.connection.execute("UPDATE penstock.job SET losses = 2")
    await engine.call("rescue_v1", now=NOON + timedelta(seconds=60))
    ends = [(await engine.job(id))["expires_on"] for id in (cancelled, expired, lost["id"])]
    assert [(end - TODAY).days for end in ends] == [4, 4, 6]


async def test_longer_rule_makes_its_partitions_at_once(engine: Engine) -> None:
    await keep(engine, "completed", 20)
    await engine.connection.execute("UPDATE penstock.retention SET days = 90")
    assert await kept_until(engine, "completed") == next_monday(90)


async def test_longer_rule_waits_for_the_current_partition_maker(
    engine: Engine, other: Engine
) -> None:
    async with other.connection.transaction():
        await other.value("ensure_partitions_v1", ahead=8)
        await engine.connection.execute("SET lock_timeout = '100ms'")
        with pytest.raises(asyncpg.LockNotAvailableError):
            await keep(engine, "completed", 60)
    await keep(engine, "completed", 60)
    assert await kept_until(engine, "completed") == next_monday(60)
