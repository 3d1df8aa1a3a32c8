"""What becomes of ticks that overlap, were missed, or come with a start."""

from collections.abc import Sequence
from datetime import datetime

import asyncpg
import pytest

from tests.db.engine import NOON, Engine
from tests.db.schedules import after, fire, fires, look, make, ticks_of_jobs


@pytest.fixture(autouse=True)
def noon(engine: Engine, other: Engine) -> None:
    engine.now = other.now = NOON


async def outcomes(engine: Engine, *seconds: float) -> Sequence[str | None]:
    for each in seconds:
        await fire(engine, after(each), after(each))
    return [why for *_, why in await fires(engine)]


async def run_one(engine: Engine) -> asyncpg.Record:
    [claimed] = await engine.claim(await engine.lease(ttl=3600.0), 1, queue="mail")
    return claimed


async def test_skip_leaves_a_tick_out_while_the_job_before_lives(engine: Engine) -> None:
    await make(engine, overlap="skip")
    assert await outcomes(engine, 10, 20) == [None, "waiting"]
    attempt = await run_one(engine)
    assert await outcomes(engine, 30) == [None, "waiting", "running"]
    await engine.settle([attempt])
    assert await outcomes(engine, 40) == [None, "waiting", "running", None]
    assert await ticks_of_jobs(engine) == [after(10), after(40)]


async def test_skip_counts_a_job_that_waits_for_its_next_attempt(engine: Engine) -> None:
    await make(engine, overlap="skip")
    await outcomes(engine, 10)
    await engine.settle([await run_one(engine)], states="scheduled", delays=3600.0, errors="{}")
    assert await outcomes(engine, 20) == [None, "waiting"]


async def test_queue_one_lets_one_wait_behind_the_one_that_runs(engine: Engine) -> None:
    await make(engine, overlap="queue_one")
    await outcomes(engine, 10)
    await run_one(engine)
    assert await outcomes(engine, 20, 30, 40) == [None, None, "waiting", "waiting"]


async def test_allow_enqueues_each(engine: Engine) -> None:
    await make(engine, overlap="allow")
    assert await outcomes(engine, 10, 20, 30) == [None, None, None]


async def test_a_job_that_long_ended_and_was_redriven_counts_again(engine: Engine) -> None:
    await make(engine, overlap="skip")
    await outcomes(engine, 10)
    attempt = await run_one(engine)
    await engine.settle([attempt], states="failed", reasons="exhausted", errors="{}")
    await engine.answers("retry_v1", attempt["id"])
    assert await outcomes(engine, 20) == [None, "waiting"]


# Catch-up


async def test_missed_ticks_are_noted_and_skipped(engine: Engine) -> None:
    await make(engine, catch_up="skip")
    await fire(engine, after(95), after(90), missed=after(80), missed_ticks=8)
    assert await fires(engine) == [
        (after(80), "tick", 8, False, "missed"),
        (after(90), "tick", 1, True, None),
    ]


async def test_once_makes_one_job_of_all_that_were_missed(engine: Engine) -> None:
    await make(engine, catch_up="once")
    await fire(engine, after(85), missed=after(80), missed_ticks=8)
    assert await fires(engine) == [(after(80), "tick", 8, True, None)]
    await fire(engine, after(86), missed=after(80), missed_ticks=8)
    assert len(await ticks_of_jobs(engine)) == 1


# Start, and by hand


async def test_a_start_fires_once_for_each_term_of_a_leader(engine: Engine, other: Engine) -> None:
    await make(engine, on_start=True)
    lease = await engine.lease()
    await engine.call("elect_v1", role="orchestration", lease=lease, ttl=30.0, now=NOON)
    [due] = (await look(engine, after(1)))["due"]
    assert datetime.fromisoformat(due["start"]) == NOON
    for leader in (engine, other):
        assert await fire(leader, after(1), start=NOON) == "fired"
    assert await fires(engine) == [(NOON, "start", 1, True, None)]
    assert (await look(engine, after(2)))["due"] == []
    next_one = await engine.lease(ttl=3600.0)
    await engine.call("elect_v1", role="orchestration", lease=next_one, ttl=30.0, now=after(60))
    [due] = (await look(engine, after(61)))["due"]
    assert datetime.fromisoformat(due["start"]) == after(60)


async def test_a_start_keeps_to_the_overlap_policy(engine: Engine) -> None:
    await make(engine, on_start=True, overlap="skip")
    await fire(engine, after(10), after(10))
    await fire(engine, after(15), start=after(12))
    assert (await fires(engine))[-1] == (after(12), "start", 1, False, "waiting")


async def test_run_by_hand_it_fires_out_of_turn_and_its_ticks_stay(engine: Engine) -> None:
    await make(engine, overlap="skip")
    await engine.connection.execute("UPDATE penstock.schedule SET paused_at = now()")
    one, two = [
        await engine.value("run_schedule_v1", schedule="often", by="ada", now=after(10))
        for _ in range(2)
    ]
    assert one != two
    assert [kind for _, kind, *_ in await fires(engine)] == ["manual", "manual"]
    audit = await engine.connection.fetchrow("SELECT actor, action, target FROM penstock.audit")
    assert tuple(audit or ()) == ("ada", "run_schedule", "often")
    assert await engine.value("run_schedule_v1", schedule="missing") is None
    assert await engine.connection.fetchval("SELECT done_until FROM penstock.schedule") == NOON


# Sweeping


async def test_old_fires_are_swept_but_never_the_last_jobs(engine: Engine) -> None:
    await make(engine)
    await engine.connection.execute(
        "INSERT INTO penstock.schedule_fire (schedule, tick, job, why)"
        " SELECT 'often', $1::timestamptz + n * interval '10 s', CASE WHEN n <= 12 THEN n END,"
        " CASE WHEN n > 12 THEN 'waiting' END FROM generate_series(1, 1100) AS n",
        NOON,
    )
    # Twelve jobs and then only skipped ticks: of the newest thousand all are young.
    assert await engine.value("sweep_fires_v1", now=after(11_000)) == 2 + 88
    kept = await fires(engine)
    assert [tick for tick, _, _, has_job, _ in kept if has_job] == [
        after(10 * number) for number in range(3, 13)
    ]
    assert len(kept) == 10 + 1000
    assert await engine.value("sweep_fires_v1", limit=10_000, now=after(30 * 86_400)) == 1000
    assert len(await fires(engine)) == 10
