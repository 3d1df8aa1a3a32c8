"""Schedules: one job for each tick, whoever asks, and whatever the clock does."""

import asyncio
import json
from datetime import datetime

import pytest

from tests.db.engine import NOON, Engine
from tests.db.schedules import EVERY, after, fire, fires, look, make, ticks_of_jobs


@pytest.fixture(autouse=True)
def noon(engine: Engine, other: Engine) -> None:
    engine.now = other.now = NOON


async def test_new_schedule_is_due_at_once(engine: Engine) -> None:
    await make(engine)
    found = await look(engine, NOON)
    [due] = found["due"]
    assert (due["name"], due["every"], due["version"], due["start"]) == ("often", EVERY, 1, None)
    assert datetime.fromisoformat(due["done_until"]) == NOON
    await fire(engine, NOON, next_at=after(10))
    found = await look(engine, after(4))
    assert (found["due"], found["next_in"]) == ([], 6.0)
    assert (await look(engine, after(10)))["due"] != []


async def test_what_is_paused_or_set_aside_is_not_due(engine: Engine) -> None:
    await make(engine)
    assert (await look(engine, NOON, **{"except": ["often"]}))["due"] == []
    await engine.connection.execute("UPDATE penstock.schedule SET paused_at = now()")
    assert (await look(engine, NOON)) == {"due": [], "next_in": None, "now": NOON.isoformat()}


async def test_code_schedule_rests_while_no_worker_declares_it(engine: Engine) -> None:
    await make(engine, declared="{}")
    assert (await look(engine, NOON))["due"] == []
    await engine.call(
        "open_lease_v1", worker="w", ttl=60.0, info='{"schedules": ["often"]}', now=NOON
    )
    assert len((await look(engine, after(59)))["due"]) == 1
    assert (await look(engine, after(61)))["due"] == []


# One job for each tick


async def test_a_tick_fires_one_job_that_knows_it(engine: Engine) -> None:
    await make(engine, tenant="acme")
    assert await fire(engine, after(10.5), after(10)) == "fired"
    assert await fires(engine) == [(after(10), "tick", 1, True, None)]
    [row] = await engine.connection.fetch("SELECT * FROM penstock.job")
    assert (row["task"], row["queue"], row["tenant"], row["state"]) == (
        "work",
        "mail",
        "acme",
        "ready",
    )
    assert row["run_at"] == after(10)
    assert json.loads(row["meta"]) == {"schedule": "often", "tick": after(10).isoformat()}


async def test_a_tick_does_not_fire_again(engine: Engine) -> None:
    await make(engine)
    await fire(engine, after(10), after(10))
    assert await fire(engine, after(11), after(10)) == "fired"
    assert await ticks_of_jobs(engine) == [after(10)]


async def test_a_tick_that_is_yet_to_come_does_not_fire(engine: Engine) -> None:
    """A leader whose arithmetic, or whose clock, is ahead."""
    await make(engine)
    await fire(engine, after(10), after(10), after(20))
    assert await ticks_of_jobs(engine) == [after(10)]


async def test_after_the_clock_went_back_no_tick_comes_twice(engine: Engine) -> None:
    await make(engine)
    await fire(engine, after(3600), *(after(seconds) for seconds in range(3550, 3601, 10)))
    before = await ticks_of_jobs(engine)
    # An hour back: the same ticks come again by the clock, and are done with.
    for now in range(10, 3601, 600):
        await fire(engine, after(now), after(now))
    assert await ticks_of_jobs(engine) == before
    await fire(engine, after(3610), after(3610))
    assert await ticks_of_jobs(engine) == [*before, after(3610)]


async def test_of_two_leaders_at_once_one_fires(engine: Engine, other: Engine) -> None:
    await make(engine)
    async with engine.connection.transaction():
        assert await fire(engine, after(10), after(10)) == "fired"
        assert await fire(other, after(10), after(10)) == "busy"
    assert await fire(other, after(10), after(10)) == "fired"
    assert await ticks_of_jobs(engine) == [after(10)]


async def test_many_leaders_that_race_fire_each_tick_once(engine: Engine, other: Engine) -> None:
    await make(engine)

    async def lead(leader: Engine) -> None:
        for seconds in range(10, 310, 10):
            while await fire(leader, after(310), after(seconds)) != "fired":
                pass

    await asyncio.gather(lead(engine), lead(other))
    assert await ticks_of_jobs(engine) == [after(seconds) for seconds in range(10, 310, 10)]


async def test_fire_is_busy_when_the_schedule_has_changed(engine: Engine) -> None:
    await make(engine)
    await engine.connection.execute("UPDATE penstock.schedule SET cron = '0 3 * * *', every = NULL")
    assert await fire(engine, after(10), after(10)) == "busy"
    assert await ticks_of_jobs(engine) == []


async def test_a_change_under_way_holds_up_no_other_schedule(engine: Engine, other: Engine) -> None:
    await make(engine)
    await make(engine, "rare")
    async with other.connection.transaction():
        await other.connection.execute(
            "UPDATE penstock.schedule SET jitter = 1 WHERE name = 'often'"
        )
        assert await fire(engine, after(10), after(10)) == "busy"
        assert await fire(engine, after(10), after(10), name="rare") == "fired"


async def test_a_schedule_that_cannot_fire_keeps_no_other_from_it(engine: Engine) -> None:
    await make(engine)
    await make(engine, "broken")
    await engine.connection.execute(
        "UPDATE penstock.schedule SET request = jsonb_set(request, '{priority}', '\"high\"')"
        " WHERE name = 'broken'"
    )
    firings = [
        {
            "name": name,
            "version": version,
            "ticks": [after(10).isoformat()],
            "next_at": after(20).isoformat(),
        }
        for name, version in (("broken", 2), ("often", 1))
    ]
    rows = await engine.call("fire_schedules_v1", fires=json.dumps(firings), now=after(10))
    answers = {row["name"]: row["answer"] for row in rows}
    assert answers["often"] == "fired"
    assert "high" in answers["broken"]
    assert await ticks_of_jobs(engine) == [after(10)]


async def test_jitter_differs_by_tick_and_is_reproducible(engine: Engine) -> None:
    await make(engine, jitter=5.0)
    await make(engine, "rare", jitter=5.0)
    ticks = [after(seconds) for seconds in range(10, 210, 10)]
    await fire(engine, after(210), *ticks)
    await fire(engine, after(210), *ticks, name="rare")
    rows = await engine.connection.fetch("SELECT meta, run_at FROM penstock.job ORDER BY id")
    moved = [
        (row["run_at"] - datetime.fromisoformat(json.loads(row["meta"])["tick"])).total_seconds()
        for row in rows
    ]
    assert all(0 <= seconds < 5 for seconds in moved)
    assert len(set(moved)) == 40
    await engine.connection.execute("TRUNCATE penstock.schedule_fire, penstock.job")
    await engine.connection.execute("UPDATE penstock.schedule SET done_until = $1", NOON)
    await fire(engine, after(210), *ticks)
    rows = await engine.connection.fetch("SELECT run_at FROM penstock.job ORDER BY id")
    assert [
        (row["run_at"] - tick).total_seconds() for row, tick in zip(rows, ticks, strict=True)
    ] == moved[:20]


async def test_jittered_job_waits_for_its_own_time(engine: Engine) -> None:
    await make(engine, jitter=3600.0)
    await fire(engine, after(10), after(10))
    [row] = await engine.connection.fetch("SELECT state, run_at FROM penstock.job")
    assert row["state"] == "scheduled"
    assert after(10) < row["run_at"] < after(3610)
