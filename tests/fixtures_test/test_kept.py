"""A database that goes from test to test is as good as a new one."""

import asyncpg
import pytest

from tests.fixtures.database import connected
from tests.fixtures.kept import Kept, kept

__all__ = ["kept"]

AT_FIRST = "SELECT array_agg(number) FROM penstock.migration"


@pytest.fixture
def test(request: pytest.FixtureRequest) -> pytest.Item:
    return request.node  # type: ignore[no-any-return]


async def test_the_next_test_finds_no_row_and_counts_from_one(
    kept: Kept, test: pytest.Item
) -> None:
    database = await kept.database()
    async with connected(database.url) as connection:
        at_first = await connection.fetchval(AT_FIRST)
        assert await connection.fetchval("SELECT penstock.enqueue('work')") == 1
        await connection.execute("SELECT penstock.cancel_v1('{1}')")
        await connection.execute("DELETE FROM penstock.migration")
    await kept.clean(test)

    assert await kept.database() == database
    async with connected(database.url) as connection:
        assert await connection.fetchval("SELECT count(*) FROM penstock.job_all") == 0
        assert await connection.fetchval("SELECT penstock.enqueue('work')") == 1
        assert await connection.fetchval(AT_FIRST) == at_first
    await kept.clean(test)


@pytest.mark.parametrize(
    "change",
    [
        "CREATE TABLE public.mine ()",
        "CREATE OR REPLACE FUNCTION penstock.owns_job_v1(bigint) RETURNS boolean"
        " LANGUAGE sql STABLE AS 'SELECT true'",
        "ALTER TABLE penstock.job ADD CONSTRAINT small CHECK (id < 10)",
        "ALTER TABLE penstock.queue DISABLE TRIGGER USER",
        "ALTER TABLE penstock.job ALTER COLUMN task SET DEFAULT 'mine'",
        "ANALYZE penstock.queue, penstock.migration",
        "CREATE SCHEMA mine",
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET work_mem = ''1MB''',"
        " current_database()); END $$",
    ],
)
async def test_whoever_changes_more_than_rows_has_had_it_alone(
    kept: Kept, test: pytest.Item, change: str
) -> None:
    database = await kept.database()
    async with connected(database.admin_url) as connection:
        await connection.execute(change)
    await kept.clean(test)
    assert await kept.database() != database


@pytest.mark.usefixtures("impatient")
async def test_a_connection_that_is_left_fails_the_test(kept: Kept, test: pytest.Item) -> None:
    left = await asyncpg.connect((await kept.database()).url)
    with pytest.raises(pytest.fail.Exception, match="left behind"):
        await kept.clean(test)
    left.terminate()
