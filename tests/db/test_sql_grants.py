"""Concurrency limits: slots that workers hold, and never more of them than the limit says."""

import asyncio
from contextlib import AsyncExitStack
from datetime import timedelta
from random import Random

import asyncpg
import pytest
import pytest_asyncio

from tests.db.engine import NOON, Engine
from tests.fixtures.database import Database
from tests.fixtures.notifications import Heard, hearing
from tests.fixtures.until import until

MINUTE = timedelta(minutes=1)


async def limit(engine: Engine, key: str, slots: int) -> None:
    await engine.connection.execute(
        "INSERT INTO penstock.limit_setting (key, slots) VALUES ($1, $2) "
        "ON CONFLICT (key) DO UPDATE SET slots = $2",
        key,
        slots,
    )


async def ask_all(
    engine: Engine, lease: int, **asks: tuple[int, int]
) -> dict[str, tuple[int | None, int | None]]:
    """What a lease wants and uses of each key; the slots it holds then, and its share."""
    rows = await engine.call(
        "grant_slots_v1",
        lease=lease,
        keys=list(asks),
        wants=[wants for wants, _ in asks.values()],
        uses=[uses for _, uses in asks.values()],
        now=engine.now,
    )
    return {row["key"]: (row["slots"], row["share"]) for row in rows}


async def ask(
    engine: Engine, lease: int, wants: int, uses: int = 0
) -> tuple[int | None, int | None]:
    return (await ask_all(engine, lease, model=(wants, uses)))["model"]


async def slots(engine: Engine, lease: int, wants: int, uses: int = 0) -> int | None:
    return (await ask(engine, lease, wants, uses))[0]


async def rows(engine: Engine) -> list[tuple[int, str, int, int]]:
    sql = "SELECT lease, key, slots, wanted FROM penstock.grant ORDER BY key, lease"
    return [tuple(row) for row in await engine.connection.fetch(sql)]


@pytest_asyncio.fixture(loop_scope="session")
async def leases(engine: Engine) -> list[int]:
    engine.now = NOON
    await limit(engine, "model", 10)
    return sorted([await engine.lease(ttl=60) for _ in range(3)])


async def test_a_worker_gets_what_it_wants_as_far_as_there_is_room(
    engine: Engine, leases: list[int]
) -> None:
    one, two, _ = leases
    assert await ask(engine, one, 4) == (4, 10)
    assert await slots(engine, two, 20) == 6
    assert await rows(engine) == [(one, "model", 4, 4), (two, "model", 6, 20)]


async def test_who_wants_less_gives_back_but_not_what_its_jobs_use(
    engine: Engine, leases: list[int]
) -> None:
    one, two, _ = leases
    await ask(engine, one, 10)
    assert await slots(engine, one, 2, uses=5) == 5
    assert await slots(engine, two, 3) == 3
    assert await slots(engine, one, 0, uses=0) == 0
    assert await rows(engine) == [(two, "model", 3, 3)]


async def test_one_call_grants_slots_of_many_keys(engine: Engine, leases: list[int]) -> None:
    await limit(engine, "queue:mail", 2)
    asks = {"model": (3, 0), "queue:mail": (3, 0), "free": (3, 1)}
    assert await ask_all(engine, leases[0], **asks) == {
        "free": (None, None),
        "model": (3, 10),
        "queue:mail": (2, 2),
    }
    assert [key for _, key, _, _ in await rows(engine)] == ["model", "queue:mail"]


async def test_pattern_limits_each_key_and_a_closer_rule_wins(
    engine: Engine, leases: list[int]
) -> None:
    for key, most in (("lane:imports:*", 2), ("lane:imports:big*", 5), ("lane:imports:acme", 1)):
        await limit(engine, key, most)
    asks = dict.fromkeys([f"lane:imports:{lane}" for lane in ("a", "b", "big-1", "acme")], (9, 0))
    assert await ask_all(engine, leases[0], **asks) == {
        "lane:imports:a": (2, 2),
        "lane:imports:acme": (1, 1),
        "lane:imports:b": (2, 2),
        "lane:imports:big-1": (5, 5),
    }


async def test_holder_shrinks_to_its_share_as_its_jobs_end(
    engine: Engine, leases: list[int]
) -> None:
    one, two, _ = leases
    assert await slots(engine, one, 20) == 10
    assert await ask(engine, two, 20) == (0, 5)
    # Slots that no job uses go at once, the others one by one.
    assert await ask(engine, one, 20, uses=8) == (8, 5)
    assert await slots(engine, two, 20) == 2
    assert await ask(engine, one, 20, uses=5) == (5, 5)
    assert await slots(engine, two, 20) == 5
    assert await slots(engine, one, 20, uses=2) == 5, "both have their share"


async def test_what_modest_workers_leave_is_shared_by_the_others(
    engine: Engine, leases: list[int]
) -> None:
    modest, one, two = leases
    await ask(engine, modest, 2)
    assert await slots(engine, one, 20) == 8
    assert await ask(engine, two, 20) == (0, 4)
    assert await ask(engine, one, 20) == (4, 4)
    assert await slots(engine, two, 20) == 4


async def test_shares_add_up_to_the_limit_and_the_odd_slots_go_around(
    engine: Engine, leases: list[int]
) -> None:
    await limit(engine, "model", 4)
    turns = set()
    for _ in range(3):
        # Twice: as all want the same, all are asked to go down before anyone goes up.
        for lease in leases * 2:
            await ask(engine, lease, 9)
        held = [held for _, _, held, _ in await rows(engine)]
        assert sorted(held) == [1, 1, 2]
        turns.add(held.index(2))
        engine.now = engine.now and engine.now + timedelta(seconds=10)
    assert turns == {0, 1, 2}


async def test_with_fewer_slots_than_workers_each_has_its_turn(
    engine: Engine, leases: list[int]
) -> None:
    await limit(engine, "model", 1)
    turns = set()
    for _ in range(3):
        for lease in leases * 2:
            await ask(engine, lease, 1)
        [holder] = [lease for lease, _, held, _ in await rows(engine) if held]
        turns.add(holder)
        engine.now = engine.now and engine.now + timedelta(seconds=10)
    assert turns == set(leases)


async def test_dead_leases_neither_hold_nor_wait_for_slots(
    engine: Engine, leases: list[int]
) -> None:
    dead, waiting, one = leases
    await ask(engine, dead, 10)
    await ask(engine, waiting, 10)
    engine.now = NOON + MINUTE
    one = await engine.lease()
    assert await ask(engine, one, 10) == (10, 10)
    assert await rows(engine) == [(one, "model", 10, 10)]


async def test_dead_lease_gets_no_slots_back_when_the_clock_goes_back(
    engine: Engine, leases: list[int]
) -> None:
    await ask(engine, leases[0], 10)
    engine.now = NOON + MINUTE
    one = await engine.lease()
    await ask(engine, one, 10)
    engine.now = NOON + timedelta(seconds=30)
    assert await slots(engine, leases[0], 10) == 0


async def test_a_dead_worker_is_refused(engine: Engine, leases: list[int]) -> None:
    engine.now = NOON + MINUTE
    for lease in (leases[0], 4711):
        with pytest.raises(asyncpg.PostgresError) as caught:
            await ask(engine, lease, 1)
        assert caught.value.sqlstate == "PS001"


async def test_lowered_limit_waits_for_jobs_and_a_raised_one_does_not(
    engine: Engine, leases: list[int]
) -> None:
    one, two, _ = leases
    await ask(engine, one, 5)
    await ask(engine, two, 5)
    await limit(engine, "model", 4)
    assert await slots(engine, one, 5, uses=5) == 5
    assert await slots(engine, two, 5, uses=3) == 3
    assert await slots(engine, two, 5, uses=1) == 1
    assert await slots(engine, one, 5, uses=2) == 2
    assert await slots(engine, two, 5, uses=1) == 2
    await limit(engine, "model", 20)
    assert [await ask(engine, lease, 5, uses=2) for lease in (one, two)] == [(5, 20)] * 2


async def test_a_limit_of_zero_stops_a_key_and_no_limit_frees_it(
    engine: Engine, leases: list[int]
) -> None:
    one = leases[0]
    await limit(engine, "model", 0)
    assert await ask(engine, one, 3) == (0, 0)
    await engine.connection.execute("DELETE FROM penstock.limit_setting")
    assert await ask(engine, one, 3) == (None, None)
    assert await rows(engine) == []


async def test_what_ran_before_there_was_a_limit_counts(engine: Engine, leases: list[int]) -> None:
    one, two, _ = leases
    assert await slots(engine, one, 0, uses=12) == 12
    assert await slots(engine, two, 3) == 0


async def test_a_snapshot_that_may_be_old_is_refused(engine: Engine, leases: list[int]) -> None:
    for isolation in ("repeatable_read", "serializable"):
        with pytest.raises(asyncpg.InvalidTransactionStateError, match="read committed"):
            async with engine.connection.transaction(isolation=isolation):
                await ask(engine, leases[0], 1)


async def told(heard: Heard) -> list[str]:
    """What was told since the last look."""
    payloads = list(await heard.all())
    heard.payloads.clear()
    return payloads


async def test_grants_notify_takers_and_givers_once(
    engine: Engine, leases: list[int], database: Database
) -> None:
    one, two, three = leases
    async with hearing(database, "grants") as heard:
        await ask(engine, one, 20)
        assert await told(heard) == [], "nobody is there to hear it"
        await ask(engine, two, 20)
        assert await told(heard) == ["model"], "one should give"
        await ask(engine, two, 20)
        assert await told(heard) == [], "it has been told"
        await ask(engine, one, 20, uses=8)
        assert await told(heard) == ["model"], "two can take"
        await ask(engine, one, 20, uses=8)
        assert await told(heard) == []
        await ask(engine, two, 20)
        assert await told(heard) == ["model"], "one should give more"
        await ask(engine, one, 5, uses=5)
        assert await told(heard) == ["model"]
        await ask(engine, two, 20)
        assert await told(heard) == ["model"], "one may have no use for all of its share"
        await ask(engine, two, 0)
        assert await told(heard) == [], "one has what it wants"
        await ask(engine, three, 2)
        assert await told(heard) == []


async def test_unserved_lease_notifies_the_holders_again(
    engine: Engine, leases: list[int], database: Database
) -> None:
    one, two, three = leases
    await limit(engine, "lane", 1)
    await ask_all(engine, one, lane=(1, 1))
    await ask_all(engine, three, lane=(1, 0))
    async with hearing(database, "waits") as heard:
        await ask_all(engine, three, lane=(1, 0))
        assert await told(heard) == ["lane"]
        # The slot passes on to another, who has not heard of it.
        await ask_all(engine, one, lane=(0, 0))
        await ask_all(engine, two, lane=(1, 1))
        await told(heard)
        await ask_all(engine, three, lane=(1, 0))
        assert await told(heard) == ["lane"]
        await ask_all(engine, two, lane=(0, 0))
        await ask_all(engine, three, lane=(1, 0))
        assert await told(heard) == []


async def test_who_stops_waiting_leaves_its_share_to_those_who_wait(
    engine: Engine, leases: list[int], database: Database
) -> None:
    one, two, _ = leases
    await ask(engine, one, 20)
    await ask(engine, two, 20)
    assert await slots(engine, one, 20) == 5
    async with hearing(database, "grants") as heard:
        await ask(engine, two, 0)
        assert await told(heard) == ["model"]
    assert await slots(engine, one, 20) == 10


async def test_the_end_of_a_session_tells_those_who_wait_for_its_slots(
    engine: Engine, leases: list[int], database: Database
) -> None:
    one, two, three = leases
    await limit(engine, "other", 3)
    await ask_all(engine, one, model=(10, 0), other=(1, 0))
    await ask_all(engine, two, model=(10, 0), other=(1, 0))
    async with hearing(database, "grants") as heard:
        assert await engine.value("close_lease_v1", lease=one, now=NOON) == 0
        assert await told(heard) == ["model"]
        assert await slots(engine, two, 10) == 10
        assert await slots(engine, three, 0, uses=1) == 1
        await told(heard)
        engine.now = NOON + MINUTE
        last = await engine.lease()
        await ask(engine, last, 1)
        await engine.value("close_lease_v1", lease=last, now=engine.now)
        assert await told(heard) == [], "only the dead wait"


async def test_who_asks_while_a_session_ends_is_told_or_sees_its_slots(
    engine: Engine, other: Engine, leases: list[int], database: Database
) -> None:
    one, two, _ = leases
    other.now = NOON
    await ask(engine, one, 10)
    async with hearing(database, "grants") as heard:
        async with other.connection.transaction():
            assert await slots(other, two, 10) == 0
            ending = asyncio.create_task(engine.value("close_lease_v1", lease=one, now=NOON))
            await until(other.keeps_waiting, what="the end of the session to wait")
            assert await told(heard) == []
        await ending
        assert "model" in await told(heard)
    assert await slots(engine, two, 10) == 10


async def test_second_of_two_grants_sees_the_first(
    engine: Engine, other: Engine, leases: list[int]
) -> None:
    one, two, _ = leases
    other.now = NOON
    async with other.connection.transaction():
        assert await slots(other, one, 7) == 7
        asking = asyncio.create_task(slots(engine, two, 7))
        await until(other.keeps_waiting, what="the second to wait")
    assert await asking == 3


async def test_grants_of_the_same_keys_do_not_deadlock(
    engine: Engine, other: Engine, leases: list[int]
) -> None:
    other.now = NOON
    keys = [f"key {number}" for number in range(20)]
    await limit(engine, "key *", 3)

    async def hammer(on: Engine, lease: int, rng: Random) -> None:
        for _ in range(20):
            some = rng.sample(keys, 10)
            await ask_all(on, lease, **{key: (rng.randint(0, 3), 0) for key in some})

    await asyncio.gather(hammer(engine, leases[0], Random(1)), hammer(other, leases[1], Random(2)))


WORKERS = 8
ALL_WAIT = """
SELECT count(*) = $1 FROM pg_locks
 WHERE NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


async def test_eight_concurrent_grants_share_exactly_the_limit(
    database: Database, engine: Engine
) -> None:
    async with AsyncExitStack() as stack:
        connections = [await stack.enter_async_context(database.connect()) for _ in range(WORKERS)]
        workers = [(Engine(each), await Engine(each).lease()) for each in connections]
        for most in range(1, 13):
            await limit(engine, "model", most)
            async with engine.connection.transaction():
                # All come to the line before the first may go.
                await engine.connection.execute("LOCK TABLE penstock.grant")
                asking = asyncio.gather(*(slots(*worker, 4, 0) for worker in workers))
                await until(
                    lambda: engine.connection.fetchval(ALL_WAIT, WORKERS),
                    what="all to wait",
                )
            assert sum(held or 0 for held in await asking) == most
            for worker in workers:
                await slots(*worker, 0)
        assert await rows(engine) == []


async def test_random_grants_of_eight_leases_never_exceed_the_limit(
    database: Database, engine: Engine
) -> None:
    await limit(engine, "model", 5)
    held: dict[int, int] = {}

    async def hammer(rng: Random) -> None:
        async with database.connect() as connection:
            worker = Engine(connection)
            for _ in range(4):
                lease = await worker.lease()
                held[lease] = 0
                for _ in range(10):
                    # What it does not use may be another's before the answer is here.
                    held[lease] = rng.randint(0, held[lease])
                    held[lease] = await slots(worker, lease, rng.randint(0, 4), held[lease]) or 0
                    assert sum(held.values()) <= 5
                held[lease] = 0
                await worker.value("close_lease_v1", lease=lease)

    await asyncio.gather(*(hammer(Random(seed)) for seed in range(WORKERS)))
    assert await rows(engine) == []
