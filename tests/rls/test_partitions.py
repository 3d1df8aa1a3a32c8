"""No partition of the history lets a tenant past the policies of the history."""

from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from tests.fixtures.database import connected
from tests.rls.conftest import Ground
from tests.rls.seeds import SEEDS, values

# From today to the longest retention, and a week ahead.
DAYS = range(39)
UNCOVERED = """
SELECT c.relname FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
 WHERE i.inhparent = 'penstock.job_history'::regclass AND NOT c.relrowsecurity
"""


def partition(days: int) -> str:
    return f"job_history_{datetime.now(UTC) + timedelta(days=days):%Y%m%d}"


async def test_there_are_no_other_partitions(seeded: Ground) -> None:
    async with seeded.owner() as owner:
        found = await owner.fetchval(
            "SELECT count(*) FROM pg_inherits WHERE inhparent = 'penstock.job_history'::regclass"
        )
    assert found == len(DAYS)


def expiring(days: int) -> str:
    """A row of the history whose day is that of a partition."""
    return SEEDS["job_history"].replace("::date + 7", f"::date + {days}")


async def test_a_partition_has_rows_and_a_tenant_may_not_even_ask_it(seeded: Ground) -> None:
    async with seeded.owner() as owner, seeded.trying("a") as connection:
        transaction = owner.transaction()
        await transaction.start()
        for days in DAYS:
            name = f"penstock.{partition(days)}"
            await owner.execute(expiring(days).format(**values("b", number=50)))
            assert await owner.fetchval(f"SELECT count(*) FROM {name}") > 0
            async with seeded.undone(connection):
                with pytest.raises(asyncpg.InsufficientPrivilegeError, match="permission denied"):
                    await connection.execute(f"SELECT FROM {name}")
        await transaction.rollback()


async def test_a_partition_is_closed_also_after_a_slip(seeded: Ground) -> None:
    async with seeded.trying("a", slip=True) as connection:
        for days in DAYS:
            name = f"penstock.{partition(days)}"
            await connection.execute(expiring(days).format(**values("a", number=50)))
            for verb in (
                f"SELECT FROM {name}",
                f"UPDATE {name} SET tenant = 'a'",
                f"DELETE FROM {name}",
            ):
                assert (await connection.execute(verb)).endswith(" 0"), verb
            past = expiring(days).replace("penstock.job_history ", f"{name} ")
            assert name in past
            async with seeded.undone(connection):
                with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
                    await connection.execute(past.format(**values("a", number=51)))


async def test_a_partition_that_a_worker_makes_later_is_closed_too(ground: Ground) -> None:
    async with connected(ground.worker_url) as worker:
        assert await worker.fetchval("SELECT penstock.ensure_partitions_v2(9)") == 2
    async with ground.owner() as owner:
        assert await owner.fetch(UNCOVERED) == []


async def test_a_partition_that_was_made_without_is_closed_by_the_next_worker(
    ground: Ground,
) -> None:
    async with ground.owner() as owner:
        await owner.execute("SELECT penstock.ensure_partitions_v1(9)")
        await owner.execute(
            "INSERT INTO penstock.retention (tenant, state, days) VALUES ('a', 'failed', 40)"
        )
        assert await owner.fetch(UNCOVERED) != []
    async with ground.trying("a") as app:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await app.execute(f"SELECT FROM penstock.{partition(40)}")
    async with connected(ground.worker_url) as worker:
        await worker.execute("SELECT penstock.ensure_partitions_v2()")
    async with ground.owner() as owner:
        assert await owner.fetch(UNCOVERED) == []
