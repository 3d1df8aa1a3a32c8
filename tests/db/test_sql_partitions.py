"""History's partitions come and go under readers and settles, and none of them waits."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import pytest

from penstock.sql import statement
from tests.db.engine import NOON, Engine
from tests.fixtures.until import until

TODAY = NOON.date()
PARTITIONS = """
SELECT c.relname FROM pg_class AS c
 WHERE c.relnamespace = 'penstock'::regnamespace AND c.relkind = 'r'
   AND c.relname ~ '^job_history_[0-9]{8}$'
 ORDER BY c.relname
"""


def partition(days_from_today: int) -> str:
    return f"job_history_{TODAY + timedelta(days=days_from_today):%Y%m%d}"


async def partitions(engine: Engine) -> list[str]:
    return [row["relname"] for row in await engine.connection.fetch(PARTITIONS)]


async def expired(engine: Engine, now: datetime) -> list[asyncpg.Record]:
    return await engine.connection.fetch(
        statement("list_expired_partitions", "penstock"), "penstock", now
    )


async def rotate(engine: Engine, now: datetime, reader: Engine | None = None) -> list[str]:
    """One round of taking expired partitions away, as far as a reader lets it; its steps."""
    steps = []
    for _ in range(100):
        found = await expired(engine, now)
        if not found:
            return steps
        step = "finalize" if found[0]["pending"] else "detach" if found[0]["attached"] else "drop"
        taking = asyncio.create_task(engine.connection.execute(found[0][step]))
        if reader is not None and await is_kept_waiting(taking, by=reader):
            taking.cancel()
            await asyncio.gather(taking, return_exceptions=True)
            return [*steps, f"{step} waits"]
        await taking
        steps.append(step)
    raise AssertionError(f"There is no end of it: {steps}")


async def is_kept_waiting(task: asyncio.Task[Any], by: Engine) -> bool:
    """Whether a statement waits for somebody, once it is done or does so."""

    async def waits() -> bool:
        return task.done() or await by.keeps_waiting()

    await until(waits, what="the statement to end, or to wait")
    return not task.done()


@asynccontextmanager
async def held_reader(reader: Engine) -> AsyncIterator[None]:
    """Somebody's report: a snapshot over all jobs, held open."""
    async with reader.connection.transaction(isolation="repeatable_read", readonly=True):
        await reader.connection.fetch("SELECT id, state FROM penstock.job_all")
        yield


async def settle_without_waiting(engine: Engine, **columns: object) -> int:
    """A whole life of a job in which no statement waits for a lock."""
    async with engine.connection.transaction():
        await engine.connection.execute(
            "SET LOCAL lock_timeout = '50ms'; SET LOCAL statement_timeout = '30s'"
        )
        attempt = await engine.attempt()
        assert await engine.settle([attempt], **columns) == {}
    return attempt["id"]


async def expiries(engine: Engine, days: int) -> set[str]:
    """The partitions for jobs that end today and in the week ahead and are kept for so long."""
    rows = await engine.connection.fetch(
        "SELECT penstock.expires_on_v1($1::date + g, $2) AS day FROM generate_series(0, 7) AS g",
        TODAY,
        days,
    )
    return {f"job_history_{row['day']:%Y%m%d}" for row in rows}


async def test_partitions_exist_for_exactly_the_possible_expiry_days(engine: Engine) -> None:
    daily = {partition(day) for day in range(1 + 7 + 7 + 1)}
    found = await partitions(engine)
    assert set(found) == daily | await expiries(engine, 30)
    assert len(found) <= len(daily) + 2
    assert await engine.value("ensure_partitions_v1", now=NOON) == 0
    await engine.connection.execute(
        "INSERT INTO penstock.retention (state, days) VALUES ('failed', 40), ('cancelled', 400)"
    )
    far = await expiries(engine, 30) | await expiries(engine, 40) | await expiries(engine, 400)
    assert set(await partitions(engine)) == daily | far


async def test_each_day_brings_the_partition_that_it_needs(engine: Engine) -> None:
    for day in range(1, 15):
        await engine.value("ensure_partitions_v1", now=NOON + timedelta(days=day))
        assert partition(day + 7 + 1 + 7) in await partitions(engine)
        assert await engine.value("ensure_partitions_v1", now=NOON + timedelta(days=day)) == 0


async def test_a_partition_has_the_indexes_of_history(engine: Engine) -> None:
    rows = await engine.connection.fetch(
        """SELECT parent.relname
             FROM pg_index AS x
             JOIN pg_inherits AS p ON p.inhrelid = x.indexrelid
             JOIN pg_class AS parent ON parent.oid = p.inhparent
            WHERE x.indrelid = $1::text::regclass""",
        f"penstock.{partition(3)}",
    )
    assert {row["relname"] for row in rows} == {
        "job_history_pkey",
        "job_history_batch",
        "job_history_failed",
        "job_history_subject",
        "job_history_workflow",
    }


async def test_making_partitions_blocks_no_reader_and_no_settle(
    engine: Engine, other: Engine
) -> None:
    await settle_without_waiting(other)
    async with held_reader(other):
        later = NOON + timedelta(days=20)
        assert await engine.value("ensure_partitions_v1", now=later) >= 16
        await settle_without_waiting(engine)


async def test_no_settle_waits_while_partitions_are_being_made(
    engine: Engine, other: Engine
) -> None:
    async with other.connection.transaction():
        assert await other.value("ensure_partitions_v1", now=NOON + timedelta(days=3)) >= 3
        await settle_without_waiting(engine)
        await settle_without_waiting(engine, states="failed", reasons="some")


async def test_second_partition_maker_skips_while_the_first_works(
    engine: Engine, other: Engine
) -> None:
    later = NOON + timedelta(days=1)
    async with other.connection.transaction():
        assert await other.value("ensure_partitions_v1", now=later) >= 1
        assert await engine.value("ensure_partitions_v1", now=later) == 0


async def test_a_partition_expires_when_its_day_is_over(engine: Engine) -> None:
    assert await expired(engine, NOON) == []
    tomorrow = NOON + timedelta(days=1)
    assert [row["name"] for row in await expired(engine, tomorrow)] == [partition(0)]


async def test_expired_partitions_are_taken_away_and_others_stay(engine: Engine) -> None:
    kept = await settle_without_waiting(engine)
    before = await partitions(engine)
    steps = await rotate(engine, NOON + timedelta(days=2))
    assert steps == ["detach", "drop"] * 2
    assert await partitions(engine) == before[2:]
    assert await engine.states() == {kept: "completed"}


async def test_rotation_waits_for_a_reader_without_blocking_settles(
    engine: Engine, other: Engine
) -> None:
    await settle_without_waiting(engine)
    later = NOON + timedelta(days=2)
    async with held_reader(other):
        rounds = []
        for _ in range(3):
            rounds.append(await rotate(engine, later, other))
            await settle_without_waiting(engine)
        assert rounds == [["detach waits"], ["finalize waits"], ["finalize waits"]]
        [pending, attached] = await expired(engine, later)
        assert (pending["name"], pending["pending"]) == (partition(0), True)
        assert (attached["attached"], attached["pending"]) == (True, False)
        # The reader still sees what it saw, and can read on.
        assert len(await other.connection.fetch("SELECT id FROM penstock.job_all")) == 1
    assert await rotate(engine, later) == ["finalize", "drop", "detach", "drop"]
    assert await expired(engine, later) == []
    assert len(await engine.states()) == 4


async def test_no_settle_waits_while_a_detach_waits(engine: Engine, other: Engine) -> None:
    async with held_reader(other):
        assert await rotate(engine, NOON + timedelta(days=1), other) == ["detach waits"]
        await settle_without_waiting(engine)
        assert await engine.value("ensure_partitions_v1", now=NOON + timedelta(days=1)) >= 1
    assert await rotate(engine, NOON + timedelta(days=1)) == ["finalize", "drop"]


async def test_detached_partition_is_found_again_and_dropped(engine: Engine) -> None:
    tomorrow = NOON + timedelta(days=1)
    [row] = await expired(engine, tomorrow)
    await engine.connection.execute(row["detach"])
    [row] = await expired(engine, tomorrow)
    assert (row["attached"], row["pending"]) == (False, False)
    assert await rotate(engine, tomorrow) == ["drop"]


async def test_without_its_partition_a_settle_fails_and_the_job_stays(engine: Engine) -> None:
    attempt = await engine.attempt(await engine.lease(ttl=1e9))
    with pytest.raises(asyncpg.CheckViolationError, match="no partition"):
        await engine.call(
            "settle_v1",
            ids=[attempt["id"]],
            tokens=[attempt["token"]],
            now=NOON + timedelta(days=400),
        )
    assert await engine.states() == {attempt["id"]: "running"}


def detach(days_from_today: int, *, concurrently: bool = False) -> str:
    how = " CONCURRENTLY" if concurrently else ""
    return f"ALTER TABLE penstock.job_history DETACH PARTITION {table_of(days_from_today)}{how}"


def table_of(days_from_today: int) -> str:
    return f"penstock.{partition(days_from_today)}"


@pytest.mark.parametrize("concurrently", [False, True])
async def test_a_needed_partition_that_is_detached_is_attached_again(
    engine: Engine, concurrently: bool
) -> None:
    kept = await settle_without_waiting(engine)
    await engine.connection.execute(detach(8, concurrently=concurrently))
    assert await engine.states() == {}
    assert await engine.value("ensure_partitions_v1", now=NOON) == 1
    assert await engine.states() == {kept: "completed"}
    await settle_without_waiting(engine)


async def test_needed_partition_is_reattached_after_an_aborted_detach(
    engine: Engine, other: Engine
) -> None:
    async with held_reader(other):
        detaching = asyncio.create_task(engine.connection.execute(detach(8, concurrently=True)))
        assert await is_kept_waiting(detaching, by=other)
        detaching.cancel()
        await asyncio.gather(detaching, return_exceptions=True)
    assert await engine.value("ensure_partitions_v1", now=NOON) == 1
    await settle_without_waiting(engine)


async def test_unattachable_partition_raises_with_the_statement_to_run(engine: Engine) -> None:
    """But only once the other partitions are there."""
    await engine.connection.execute(
        f"{detach(8)}; ALTER TABLE {table_of(8)} DROP COLUMN result; DROP TABLE {table_of(9)}"
    )
    assert await engine.value("ensure_partitions_v1", now=NOON) == 1
    with pytest.raises(asyncpg.PostgresError, match=f"{partition(8)} .* is detached") as raised:
        await engine.value("ensure_partitions_v1", now=NOON)
    assert raised.value.sqlstate == "PS018"
    assert "missing column" in str(raised.value)
    remedy = raised.value.hint.partition("run: ")[2]
    await engine.connection.execute(f"ALTER TABLE {table_of(8)} ADD COLUMN result jsonb")
    await engine.connection.execute(remedy)
    await settle_without_waiting(engine)
    assert await engine.value("ensure_partitions_v1", now=NOON) == 0


async def test_partition_in_use_raises_with_the_process_that_uses_it(
    engine: Engine, other: Engine
) -> None:
    await engine.connection.execute(detach(8))
    user = await other.connection.fetchval("SELECT pg_backend_pid()")
    async with other.connection.transaction():
        await other.connection.execute(f"SELECT FROM {table_of(8)}")
        with pytest.raises(asyncpg.PostgresError, match=f"{partition(8)} .* in use") as raised:
            await engine.value("ensure_partitions_v1", now=NOON)
        assert raised.value.sqlstate == "PS018"
        assert f"{user} (" in raised.value.hint
    assert await engine.value("ensure_partitions_v1", now=NOON) == 1
    await settle_without_waiting(engine)


async def test_partition_of_another_table_raises_with_the_remedy(engine: Engine) -> None:
    elsewhere = await attached_elsewhere(engine, 8)
    with pytest.raises(asyncpg.PostgresError, match=f"{partition(8)} .* is detached") as raised:
        await engine.value("ensure_partitions_v1", now=NOON)
    assert raised.value.sqlstate == "PS018"
    remedy = raised.value.hint.partition("run: ")[2]
    assert remedy.startswith(f"ALTER TABLE {elsewhere} DETACH PARTITION")
    await engine.connection.execute(remedy)
    await settle_without_waiting(engine)


async def test_expired_partition_of_another_table_is_not_removed(engine: Engine) -> None:
    await attached_elsewhere(engine, 0)
    assert await expired(engine, NOON + timedelta(days=1)) == []


async def attached_elsewhere(engine: Engine, days_from_today: int) -> str:
    await engine.connection.execute(
        f"{detach(days_from_today)};"
        "CREATE TABLE penstock.archive (LIKE penstock.job_history) PARTITION BY LIST (expires_on);"
        f"ALTER TABLE penstock.archive ATTACH PARTITION {table_of(days_from_today)} DEFAULT"
    )
    return "penstock.archive"


async def test_unattachable_partition_does_not_block_longer_retention(engine: Engine) -> None:
    await engine.connection.execute(f"{detach(8)}; ALTER TABLE {table_of(8)} DROP COLUMN result")
    await engine.connection.execute(
        "INSERT INTO penstock.retention (state, days) VALUES ('failed', 2)"
    )
    assert await engine.connection.fetchval("SELECT count(*) FROM penstock.retention") == 1
