"""No partition of the history lets a tenant past the policies of the history."""

from datetime import date, datetime, timedelta

import asyncpg
import pytest

from tests.fixtures.database import connected
from tests.rls.conftest import Ground
from tests.rls.seeds import SEEDS, TODAY, values

# From today to the usual retention, and a week ahead; what is kept for longer has a few beyond.
DAYS = range(16)
PARTITIONS = """
SELECT c.relname FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
 WHERE i.inhparent = 'penstock.job_history'::regclass ORDER BY c.relname
"""
UNCOVERED = """
SELECT c.relname FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
 WHERE i.inhparent = 'penstock.job_history'::regclass AND NOT c.relrowsecurity
"""


async def partitions(ground: Ground) -> list[str]:
    """Those that are there, by their days: it may be another one than when they were made."""
    async with ground.owner() as owner:
        rows = await owner.fetch(PARTITIONS)
    return [row["relname"] for row in rows]


async def test_there_is_one_for_each_of_the_next_days_and_few_beyond(seeded: Ground) -> None:
    found = await partitions(seeded)
    first = datetime.strptime(found[0], "job_history_%Y%m%d")
    daily = [f"job_history_{first + timedelta(days=day):%Y%m%d}" for day in DAYS]
    assert found[: len(daily)] == daily
    assert 1 <= len(found) - len(daily) <= 2


def expiring(partition: str) -> str:
    """A row of the history whose day is that of a partition."""
    day = partition.removeprefix("job_history_")
    return SEEDS["job_history"].replace(f"{TODAY} + 7", f"date '{day}'")


async def test_a_partition_has_rows_and_a_tenant_may_not_even_ask_it(seeded: Ground) -> None:
    async with seeded.owner() as owner, seeded.trying("a") as connection:
        transaction = owner.transaction()
        await transaction.start()
        for partition in await partitions(seeded):
            name = f"penstock.{partition}"
            await owner.execute(expiring(partition).format(**values("b", number=50)))
            assert await owner.fetchval(f"SELECT count(*) FROM {name}") > 0
            async with seeded.undone(connection):
                with pytest.raises(asyncpg.InsufficientPrivilegeError, match="permission denied"):
                    await connection.execute(f"SELECT FROM {name}")
        await transaction.rollback()


async def test_a_partition_is_closed_also_after_a_slip(seeded: Ground) -> None:
    async with seeded.trying("a", slip=True) as connection:
        for partition in await partitions(seeded):
            name = f"penstock.{partition}"
            await connection.execute(expiring(partition).format(**values("a", number=50)))
            for verb in (
                f"SELECT FROM {name}",
                f"UPDATE {name} SET tenant = 'a'",
                f"DELETE FROM {name}",
            ):
                assert (await connection.execute(verb)).endswith(" 0"), verb
            past = expiring(partition).replace("penstock.job_history ", f"{name} ")
            assert name in past
            async with seeded.undone(connection):
                with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
                    await connection.execute(past.format(**values("a", number=51)))


async def test_a_partition_that_a_worker_makes_later_is_closed_too(ground: Ground) -> None:
    async with connected(ground.worker_url) as worker:
        await worker.execute("SELECT penstock.ensure_partitions_v1()")
        assert await worker.fetchval("SELECT penstock.ensure_partitions_v1(9)") >= 2
    async with ground.owner() as owner:
        assert await owner.fetch(UNCOVERED) == []


async def test_a_partition_that_a_longer_retention_makes_is_closed_too(ground: Ground) -> None:
    before = await partitions(ground)
    async with ground.owner() as owner:
        await owner.execute(
            "INSERT INTO penstock.retention (tenant, state, days) VALUES ('a', 'failed', 40)"
        )
        assert await owner.fetch(UNCOVERED) == []
    assert len(await partitions(ground)) > len(before)


async def test_worker_closes_a_partition_made_without_policies(ground: Ground) -> None:
    async with ground.owner() as owner:
        days = [date.today() + timedelta(days=ahead) for ahead in (100, 101)]
        for day in days:
            name = f"penstock.job_history_{day:%Y%m%d}"
            await owner.execute(f"CREATE TABLE {name} (LIKE penstock.job_history INCLUDING ALL)")
            await owner.execute(
                f"ALTER TABLE penstock.job_history ATTACH PARTITION {name}"
                f" FOR VALUES FROM ('{day}') TO ('{day + timedelta(days=1)}')"
            )
        uncovered = await owner.fetch(UNCOVERED)
    assert len(uncovered) == len(days)
    async with ground.trying("a") as app:
        for row in uncovered:
            async with ground.undone(app):
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    await app.execute(f"SELECT FROM penstock.{row['relname']}")
    async with connected(ground.worker_url) as worker:
        await worker.execute("SELECT penstock.ensure_partitions_v1()")
    async with ground.owner() as owner:
        assert await owner.fetch(UNCOVERED) == []
