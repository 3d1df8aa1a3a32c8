"""Schedules that are changed, by people and by the code that declares them."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from tests.db.engine import NOON, Engine
from tests.db.schedules import EVERY, fire, make, ticks_of_jobs


@pytest.fixture(autouse=True)
def noon(engine: Engine, other: Engine) -> None:
    engine.now = other.now = NOON


async def row_of(engine: Engine) -> asyncpg.Record:
    [row] = await engine.connection.fetch("SELECT * FROM penstock.schedule")
    return row


async def test_another_rule_begins_now_and_misses_nothing_before(engine: Engine) -> None:
    await make(engine)
    long_ago = datetime(2020, 1, 1, tzinfo=UTC)
    await engine.connection.execute(
        "UPDATE penstock.schedule SET anchor = $1, done_until = $1, next_at = $1", long_ago
    )
    await engine.connection.execute("UPDATE penstock.schedule SET jitter = 3")
    row = await row_of(engine)
    assert (row["anchor"], row["done_until"], row["next_at"]) == (long_ago, long_ago, None)
    await engine.connection.execute("UPDATE penstock.schedule SET every = 20")
    row = await row_of(engine)
    assert min(row["anchor"], row["done_until"]) > long_ago
    assert row["version"] == 3


async def test_resumed_schedule_fires_after_the_clock_went_back(engine: Engine) -> None:
    """And what has fired does not fire again, though its tick comes by once more."""
    await make(engine)
    done_until = "UPDATE penstock.schedule SET done_until = now() "
    now = await engine.connection.fetchval("SELECT now()")
    tick = now - timedelta(seconds=5)
    await engine.connection.execute(done_until + "- interval '1 h'")
    await fire(engine, now, tick)
    await engine.connection.execute(done_until + "+ interval '1 day', paused_at = now()")
    await engine.connection.execute("UPDATE penstock.schedule SET paused_at = NULL")
    row = await row_of(engine)
    assert now <= row["done_until"] < now + timedelta(hours=1)
    await engine.connection.execute(done_until + "- interval '1 h'")
    assert await fire(engine, now, tick, version=row["version"]) == "fired"
    assert await ticks_of_jobs(engine) == [tick]


async def test_what_is_resumed_goes_on_from_its_next_tick(engine: Engine) -> None:
    await make(engine)
    await engine.connection.execute(
        "UPDATE penstock.schedule SET done_until = '2020-01-01', paused_at = now()"
    )
    await engine.connection.execute("UPDATE penstock.schedule SET paused_at = NULL")
    assert (await row_of(engine))["done_until"] > datetime(2026, 1, 1, tzinfo=UTC)


DECLARED: dict[str, Any] = {
    "tenant": "",
    "request": {"task": "work", "args": {}},
    "cron": None,
    "every": 60.0,
    "timezone": "UTC",
    "jitter": 0.0,
    "overlap": "skip",
    "catch_up": "skip",
    "on_start": False,
}


async def sync(engine: Engine, wins: str = "runtime", **changes: Any) -> bool:
    """Declare the schedule as code would; whether anything was written."""
    declared = [{"name": "often", "wins": wins, "definition": DECLARED | changes}]
    return bool(await engine.call("sync_schedules_v1", declared=json.dumps(declared)))


async def test_what_the_code_declares_is_written_once(engine: Engine) -> None:
    assert await sync(engine)
    before = await row_of(engine)
    assert (before["every"], before["edited_at"]) == (60.0, None)
    assert not await sync(engine)
    assert await sync(engine, every=30.0)
    row = await row_of(engine)
    assert (row["every"], row["version"]) == (30.0, before["version"] + 1)


async def test_an_edit_at_run_time_stays_when_the_code_changes(engine: Engine) -> None:
    await sync(engine)
    await engine.connection.execute("UPDATE penstock.schedule SET every = 5, edited_at = now()")
    assert await sync(engine, every=30.0)
    row = await row_of(engine)
    assert (row["every"], json.loads(row["declared"])["every"]) == (5.0, 30.0)
    assert not await sync(engine, every=30.0)


async def test_where_the_code_wins_an_edit_lasts_until_a_worker_starts(engine: Engine) -> None:
    await sync(engine, "code")
    await engine.connection.execute("UPDATE penstock.schedule SET every = 5, edited_at = now()")
    assert await sync(engine, "code")
    row = await row_of(engine)
    assert (row["every"], row["edited_at"]) == (60.0, None)


async def test_declaring_a_runtime_schedule_in_code_keeps_it(engine: Engine) -> None:
    await make(engine)
    await sync(engine)
    row = await row_of(engine)
    assert (row["every"], row["edited_at"] is not None) == (EVERY, True)
    await sync(engine, "code")
    assert (await row_of(engine))["every"] == 60.0
