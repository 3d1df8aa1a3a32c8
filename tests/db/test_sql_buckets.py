"""Rates and budgets: what runs in by the second, what is taken, and a key that is closed."""

import asyncio
import json
import math
from datetime import timedelta
from random import Random
from time import monotonic
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from penstock.errors import BudgetTooSmall, UnknownBudget
from penstock.store.grants import Granted, LimitStatements, SlotRequest, Taken
from penstock.store.store import Store
from tests.db.engine import NOON, Engine
from tests.fixtures.database import Database
from tests.fixtures.notifications import hearing


async def limit(engine: Engine, key: str, rate: float | None, burst: float | None) -> None:
    await engine.connection.execute(
        "INSERT INTO penstock.limit_setting (key, slots, rate, burst) VALUES ($1, 1, $2, $3) "
        "ON CONFLICT (key) DO UPDATE SET rate = $2, burst = $3",
        key,
        rate,
        burst,
    )


async def take(engine: Engine, wants: int, key: str = "model") -> tuple[int, float]:
    [row] = await engine.call("take_tokens_v1", keys=[key], wants=[wants], now=engine.now)
    assert row["key"] == key
    return row["got"], row["wait"]


async def on_key(engine: Engine, function: str, *, key: str = "model", **arguments: Any) -> Any:
    return await engine.value(f"{function}_v1", key=key, now=engine.now, **arguments)


async def reserve(
    engine: Engine, units: float, key: str = "model", *, share: float = 1.0
) -> float | None:
    wait: float | None = await on_key(engine, "reserve_budget", key=key, units=units, share=share)
    return wait


def go(engine: Engine, seconds: float) -> None:
    assert engine.now is not None
    engine.now += timedelta(seconds=seconds)


@pytest_asyncio.fixture(loop_scope="session")
async def two_a_second(engine: Engine) -> Engine:
    """Two tokens a second, five at once."""
    engine.now = NOON
    await limit(engine, "model", 2, 5)
    return engine


async def test_a_bucket_begins_full_and_gives_as_many_as_there_are(two_a_second: Engine) -> None:
    assert await take(two_a_second, 3) == (3, 0)
    assert await take(two_a_second, 9) == (2, 0)
    assert await take(two_a_second, 1) == (0, 0.5)


async def test_tokens_run_in_by_the_second_until_it_is_full(two_a_second: Engine) -> None:
    await take(two_a_second, 5)
    go(two_a_second, 1.25)
    assert await take(two_a_second, 9) == (2, 0)
    go(two_a_second, 0.25)
    assert await take(two_a_second, 9) == (1, 0), "the half is not lost"
    go(two_a_second, 3600)
    assert await take(two_a_second, 9) == (5, 0)


@pytest.mark.parametrize("rate", [0.1, 3, 7, 1 / 3])
async def test_after_the_wait_it_told_there_is_a_token(engine: Engine, rate: float) -> None:
    engine.now = NOON
    await limit(engine, "model", rate, 2)
    await take(engine, 2)
    for _ in range(20):
        got, wait = await take(engine, 1)
        assert (got, wait) == (0, pytest.approx(1 / rate, abs=1e-4))
        go(engine, wait)
        assert await take(engine, 1) == (1, 0)


async def test_returned_tokens_fill_the_bucket_up_to_its_burst(two_a_second: Engine) -> None:
    await take(two_a_second, 4)
    assert await take(two_a_second, -2) == (-2, 0)
    assert await take(two_a_second, 9) == (3, 0)
    assert await take(two_a_second, -50) == (-50, 0)
    assert await take(two_a_second, 9) == (5, 0)


async def test_who_wants_none_learns_when_there_is_one(two_a_second: Engine) -> None:
    assert await take(two_a_second, 0) == (0, 0)
    await take(two_a_second, 5)
    assert await take(two_a_second, 0) == (0, 0.5)


async def test_a_rate_of_zero_gives_what_is_left_and_then_nothing(engine: Engine) -> None:
    engine.now = NOON
    await limit(engine, "model", 0, 2)
    assert await take(engine, 9) == (2, 0)
    assert await take(engine, 1) == (0, math.inf)
    assert await reserve(engine, 1) == math.inf


async def test_a_key_without_a_rate_gives_what_is_wanted(engine: Engine) -> None:
    await limit(engine, "model", None, None)
    assert await take(engine, 7) == (7, 0)
    assert await take(engine, 7, "no such key") == (7, 0)
    assert await engine.connection.fetchval("SELECT count(*) FROM penstock.bucket") == 0


async def test_a_pattern_gives_each_key_a_bucket_of_its_own(two_a_second: Engine) -> None:
    await limit(two_a_second, "customer:*", 1, 3)
    keys = ["customer:b", "model", "customer:a"]
    rows = await two_a_second.call("take_tokens_v1", keys=keys, wants=[9, 9, 2], now=NOON)
    assert [tuple(row) for row in rows] == [
        ("customer:a", 2, 0),
        ("customer:b", 3, 0),
        ("model", 5, 0),
    ]


async def test_a_rate_may_change_at_any_time(two_a_second: Engine) -> None:
    await limit(two_a_second, "model", 2, 3)
    assert await take(two_a_second, 9) == (3, 0)
    await limit(two_a_second, "model", 10, 20)
    assert await take(two_a_second, 9) == (0, 0.1)
    go(two_a_second, 1)
    assert await take(two_a_second, 99) == (10, 0)
    await two_a_second.connection.execute("DELETE FROM penstock.limit_setting")
    assert await take(two_a_second, 99) == (99, 0)


async def test_a_clock_that_is_set_back_neither_gives_nor_stops(two_a_second: Engine) -> None:
    await take(two_a_second, 4)
    go(two_a_second, -3600)
    assert await take(two_a_second, 9) == (1, 0)
    assert await take(two_a_second, 9) == (0, 0.5)
    go(two_a_second, -3600)
    assert await take(two_a_second, 9) == (0, 0.5)
    go(two_a_second, 0.5)
    assert await take(two_a_second, 9) == (1, 0), "it runs by the new time"


async def test_who_gets_no_token_writes_nothing(two_a_second: Engine) -> None:
    await take(two_a_second, 5)
    written = "SELECT ctid FROM penstock.bucket"
    before = await two_a_second.connection.fetchval(written)
    assert await take(two_a_second, 1) == (0, 0.5)
    assert await two_a_second.connection.fetchval(written) == before


async def test_a_closed_key_gives_nothing_until_it_opens(two_a_second: Engine) -> None:
    assert await on_key(two_a_second, "close_bucket", seconds=30.0) == 30
    assert await take(two_a_second, 1) == (0, 30)
    assert await reserve(two_a_second, 1) == 30
    assert await take(two_a_second, -1) == (-1, 0)
    go(two_a_second, 29)
    assert await take(two_a_second, 0) == (0, 1)
    go(two_a_second, 1)
    assert await take(two_a_second, 9) == (5, 0)


async def test_shorter_close_keeps_the_bucket_closed_until_opened(two_a_second: Engine) -> None:
    await on_key(two_a_second, "close_bucket", seconds=30.0)
    assert await on_key(two_a_second, "close_bucket", seconds=10.0) == 30
    assert await on_key(two_a_second, "close_bucket", seconds=60.0) == 60
    assert await on_key(two_a_second, "open_bucket") is True
    assert await on_key(two_a_second, "open_bucket") is False
    assert await take(two_a_second, 9) == (5, 0)
    assert await on_key(two_a_second, "open_bucket", key="no such key") is False


async def test_a_key_without_a_rate_can_be_closed_too(engine: Engine) -> None:
    engine.now = NOON
    await on_key(engine, "close_bucket", seconds=30.0)
    assert await take(engine, 3) == (0, 30)
    await limit(engine, "model", 2, 5)
    go(engine, 30)
    assert await take(engine, 9) == (5, 0), "to be closed is not to be empty"


async def test_closing_and_opening_are_told_to_all(
    two_a_second: Engine, database: Database
) -> None:
    async with hearing(database, "buckets") as heard:
        await on_key(two_a_second, "close_bucket", seconds=30.0)
        await on_key(two_a_second, "close_bucket", seconds=10.0)
        await on_key(two_a_second, "open_bucket")
        assert [json.loads(each) for each in await heard.all(2)] == [["model", 30], ["model", 0]]


@pytest.mark.parametrize("seconds", [-1.0, math.nan, math.inf, 1e9, None])
async def test_a_key_is_not_closed_for_a_senseless_time(
    two_a_second: Engine, seconds: float | None
) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError):
        await on_key(two_a_second, "close_bucket", seconds=seconds)


async def test_a_budget_gives_all_units_or_none_and_says_when(two_a_second: Engine) -> None:
    assert await reserve(two_a_second, 3.5) is None
    assert await reserve(two_a_second, 3.5) == 1
    assert await reserve(two_a_second, 1.5) is None
    go(two_a_second, 1.75)
    assert await reserve(two_a_second, 3.5) is None
    assert await reserve(two_a_second, 0) is None


async def test_the_true_cost_is_given_back_or_spent(two_a_second: Engine) -> None:
    await reserve(two_a_second, 5)
    await on_key(two_a_second, "adjust_budget", units=2.0)
    assert await reserve(two_a_second, 2) is None
    await on_key(two_a_second, "adjust_budget", units=-10.0)
    assert await reserve(two_a_second, 1) == 5.5
    go(two_a_second, 5.5)
    assert await reserve(two_a_second, 1) is None
    await on_key(two_a_second, "adjust_budget", units=100.0)
    assert await reserve(two_a_second, 5) is None
    assert await take(two_a_second, 1) == (0, 0.5)


async def test_who_is_refused_comes_back_after_those_who_were_before(two_a_second: Engine) -> None:
    await reserve(two_a_second, 4)
    assert [await reserve(two_a_second, 2) for _ in range(3)] == [0.5, 1.5, 2.5]
    go(two_a_second, 0.5)
    assert await reserve(two_a_second, 2) is None
    assert await reserve(two_a_second, 2) == 3, "after the two that still wait"
    for _ in range(3):
        go(two_a_second, 1)
        assert await reserve(two_a_second, 2) is None
    assert await reserve(two_a_second, 1) == 0.5, "nobody waits any more"


async def test_who_lacks_a_little_does_not_go_to_the_end_of_the_line(two_a_second: Engine) -> None:
    await reserve(two_a_second, 5)
    assert [await reserve(two_a_second, 4) for _ in range(3)] == [2, 4, 6]
    go(two_a_second, 1.875)
    assert await reserve(two_a_second, 4) == 0.125
    go(two_a_second, 0.125)
    assert await reserve(two_a_second, 4) is None
    assert await reserve(two_a_second, 4) == 6


async def test_what_will_come_back_is_not_waited_for(two_a_second: Engine) -> None:
    await reserve(two_a_second, 5)
    waits = [await reserve(two_a_second, 4, share=0.25) for _ in range(6)]
    assert waits == [2, 2, 2, 2, 2.5, 3], "never before there can be enough"
    await on_key(two_a_second, "adjust_budget", units=3.0)
    assert await reserve(two_a_second, 4, share=0.25) == (24 - 3 + 4) / 4 / 2
    assert [await reserve(two_a_second, 4, share=odd) for odd in (-1.0, 0.0)] == [0.5, 0.5]


async def test_a_bucket_that_is_full_again_or_opened_forgets_who_waits(
    two_a_second: Engine,
) -> None:
    await reserve(two_a_second, 5)
    for _ in range(9):
        await reserve(two_a_second, 5)
    await on_key(two_a_second, "adjust_budget", units=5.0)
    assert await reserve(two_a_second, 5) is None
    assert await reserve(two_a_second, 1) == 0.5

    await on_key(two_a_second, "close_bucket", seconds=30.0)
    assert [await reserve(two_a_second, 2) for _ in range(4)] == [30, 30, 30.5, 31.5]
    await on_key(two_a_second, "open_bucket")
    assert await reserve(two_a_second, 1) == 0.5


async def test_nobody_is_sent_away_for_long_because_of_others(two_a_second: Engine) -> None:
    await reserve(two_a_second, 5)
    waits = [await reserve(two_a_second, 5) for _ in range(140)]
    assert waits[:2] == [2.5, 5]
    assert waits[-1] == 300


async def test_a_clock_that_is_set_back_keeps_the_line_as_it_is(two_a_second: Engine) -> None:
    await reserve(two_a_second, 5)
    assert [await reserve(two_a_second, 2) for _ in range(2)] == [1, 2]
    go(two_a_second, -3600)
    assert await reserve(two_a_second, 2) == 3
    go(two_a_second, 1)
    assert await reserve(two_a_second, 2) is None


@pytest.mark.parametrize("units", [-1.0, math.nan, math.inf, None])
async def test_a_budget_gives_no_senseless_number_of_units(
    two_a_second: Engine, units: float | None
) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError):
        await on_key(two_a_second, "reserve_budget", units=units)
    if units != -1.0:
        with pytest.raises(asyncpg.InvalidParameterValueError):
            await on_key(two_a_second, "adjust_budget", units=units)


async def test_a_budget_that_is_gone_takes_a_correction_and_forgets_it(engine: Engine) -> None:
    await on_key(engine, "adjust_budget", units=-3.0)
    assert await engine.connection.fetchval("SELECT count(*) FROM penstock.bucket") == 0


async def test_buckets_that_say_nothing_are_swept(engine: Engine) -> None:
    engine.now = NOON
    for key, rate in (("model", 1), ("slow", 0.001), ("gone", 1), ("closed", 1)):
        await limit(engine, key, rate, 10)
        await take(engine, 9, key)
    await on_key(engine, "close_bucket", key="closed", seconds=4000.0)
    await engine.connection.execute("DELETE FROM penstock.limit_setting WHERE key = 'gone'")

    async def swept() -> tuple[int, list[str]]:
        [row] = await engine.call("sweep_v1", now=engine.now)
        left = await engine.connection.fetch("SELECT key FROM penstock.bucket ORDER BY key")
        return row["buckets"], [each["key"] for each in left]

    go(engine, 3600)
    assert await swept() == (0, ["closed", "gone", "model", "slow"])
    go(engine, 10)
    assert await swept() == (2, ["closed", "slow"])
    go(engine, 4000)
    assert await swept() == (1, ["slow"])
    assert await take(engine, 99, "slow") == (8, 0), "1 was left and 7.61 ran in"


async def test_no_bucket_waits_for_a_compiler(engine: Engine) -> None:
    """Before Postgres 18 a scan that is switched off looks so dear that it is compiled first."""
    sql = """
        SELECT proname FROM pg_proc
         WHERE pronamespace = 'penstock'::regnamespace
           AND proname ~ '(bucket|take|reserve|correct)_v'
           AND 'enable_seqscan=off' = ANY (proconfig) AND NOT 'jit=off' = ANY (proconfig)
    """
    assert await engine.connection.fetch(sql) == []


CONNECTIONS = 8


async def test_eight_connections_at_once_take_no_more_than_there_is(
    database: Database, two_a_second: Engine
) -> None:
    await limit(two_a_second, "model", 2, 50)

    async def drain() -> int:
        async with database.connect() as connection:
            engine, sum = Engine(connection, NOON), 0
            while got := (await take(engine, 3))[0]:
                sum += got
            return sum

    assert sum(await asyncio.gather(*(drain() for _ in range(CONNECTIONS)))) == 50


async def test_by_the_real_clock_no_more_runs_in_than_the_rate(
    database: Database, engine: Engine
) -> None:
    await limit(engine, "model", 1000, 10)
    begin = monotonic()

    async def hammer() -> int:
        async with database.connect() as connection:
            worker, sum = Engine(connection), 0
            for _ in range(60):
                sum += (await take(worker, 5))[0]
            return sum

    got = sum(await asyncio.gather(*(hammer() for _ in range(4))))
    assert 10 <= got <= 10 + 1000 * (monotonic() - begin)


async def test_takes_of_the_same_keys_do_not_deadlock(engine: Engine, other: Engine) -> None:
    await limit(engine, "key *", 1000, 1000)
    keys = [f"key {number}" for number in range(20)]

    async def hammer(on: Engine, rng: Random) -> None:
        for _ in range(20):
            await on.call("take_tokens_v1", keys=rng.sample(keys, 10), wants=[1] * 10)

    await asyncio.gather(hammer(engine, Random(1)), hammer(other, Random(2)))


async def test_an_old_snapshot_takes_nothing_that_another_has_taken(
    engine: Engine, other: Engine
) -> None:
    await limit(engine, "model", 0, 5)
    await take(engine, 1)
    async with other.connection.transaction(isolation="repeatable_read"):
        await other.connection.fetchval("SELECT 1 FROM penstock.bucket")
        await take(engine, 4)
        with pytest.raises(asyncpg.SerializationError):
            async with other.connection.transaction():
                await take(other, 1)


async def test_the_store_has_a_method_for_each(engine: Engine) -> None:
    limits, on = LimitStatements(Store()), engine.connection
    await limit(engine, "model", 1000, 5)
    lease = await engine.lease()
    granted = await limits.grant(on, lease, {"model": SlotRequest(3, 0), "free": SlotRequest(2, 1)})
    assert granted == {"model": Granted(1, 1), "free": Granted(None, None)}
    assert await limits.take(on, {"model": 2, "free": 3}) == {
        "model": Taken(2, 0.0),
        "free": Taken(3, 0.0),
    }
    assert await limits.reserve(on, "model", 1.5) is None
    await limits.correct(on, "model", 1.5)
    assert await limits.close_bucket(on, "model", 60) == 60
    assert (await limits.reserve(on, "model", 1) or 0) > 50
    assert await limits.open_bucket(on, "model")
    with pytest.raises(BudgetTooSmall) as small:
        await limits.reserve(on, "model", 1200)
    assert (small.value.key, small.value.units, small.value.burst) == ("model", 1200, 5)
    with pytest.raises(UnknownBudget, match="'other'"):
        await limits.reserve(on, "other", 1)
