"""How long the history of a job is kept is decided once, when it ends."""

from datetime import timedelta

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


async def kept_for(engine: Engine, state: str, queue: str = "default", tenant: str = "") -> int:
    """Whole days for which a job that ends now is kept."""
    engine.now = NOON
    attempt = await engine.attempt(queues=queue, tenants=tenant)
    assert await engine.settle([attempt], states=state, reasons="some") == {}
    expires_on = (await engine.job(attempt["id"]))["expires_on"]
    return (expires_on - TODAY).days - 1


@pytest.mark.parametrize(("state", "days"), [("completed", 7), ("cancelled", 7), ("failed", 30)])
async def test_without_a_rule_failed_jobs_are_kept_for_a_month_and_others_for_a_week(
    engine: Engine, state: str, days: int
) -> None:
    assert await kept_for(engine, state) == days


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
    assert await kept_for(engine, "failed", queue="mail", tenant="acme") == 30


async def test_a_rule_can_keep_nothing_beyond_the_day(engine: Engine) -> None:
    await keep(engine, "completed", 0)
    assert await kept_for(engine, "completed") == 0


async def test_jobs_that_are_cancelled_expired_or_lost_are_kept_by_the_same_rules(
    engine: Engine,
) -> None:
    engine.now = NOON
    await keep(engine, "cancelled", 3)
    await keep(engine, "failed", 5)
    [cancelled, expired] = await engine.enqueue(2, deadlines=NOON)
    await engine.answers("cancel_v1", cancelled, now=NOON)
    await engine.value("expire_v1", now=NOON)
    lost = await engine.attempt(await engine.lease(ttl=60))
    await engine.connection.execute("UPDATE penstock.job SET losses = 2")
    await engine.call("rescue_v1", now=NOON + timedelta(seconds=60))
    ends = [(await engine.job(id))["expires_on"] for id in (cancelled, expired, lost["id"])]
    assert [(end - TODAY).days for end in ends] == [4, 4, 6]


async def test_a_longer_rule_has_its_partitions_before_the_first_settle_needs_them(
    engine: Engine,
) -> None:
    await keep(engine, "completed", 20)
    await engine.connection.execute("UPDATE penstock.retention SET days = 90")
    assert await kept_for(engine, "completed") == 90


async def test_a_longer_rule_waits_for_whoever_makes_partitions_at_the_moment(
    engine: Engine, other: Engine
) -> None:
    async with other.connection.transaction():
        await other.value("ensure_partitions_v2", ahead=8)
        await engine.connection.execute("SET lock_timeout = '100ms'")
        with pytest.raises(asyncpg.LockNotAvailableError):
            await keep(engine, "completed", 60)
    await keep(engine, "completed", 60)
    assert await kept_for(engine, "completed") == 60
