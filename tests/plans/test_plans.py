"""Every hot statement reads what it needs by its index, however long the backlog is.

Whatever the statistics say, and on a connection that made its plans while the table was empty.
"""

import os
from collections.abc import AsyncIterator
from itertools import product

import asyncpg
import pytest
import pytest_asyncio

from tests.fixtures.database import Database, connected, create, drop
from tests.fixtures.server import PostgresServer
from tests.plans import backlog
from tests.plans.calls import HOT, WATCHING
from tests.plans.reads import Reads, reads_of, undone

pytestmark = pytest.mark.timeout(300)  # The first test fills the table.

# The long form has a backlog that takes a while to fill.
SIZES = (0, 1_000, 1_000_000 if "PENSTOCK_LONG" in os.environ else 300_000)
STATISTICS = ("of the empty table", "none", "up to date")
CONNECTIONS = ("new", "prepared when empty")

# As if nobody had ever analysed: what a bulk load leaves behind before autovacuum comes.
FORGET = """
DELETE FROM pg_statistic WHERE starelid = 'penstock.job'::regclass;
UPDATE pg_class SET relpages = 0, reltuples = -1
 WHERE relnamespace = 'penstock'::regnamespace AND relname ~ '^job';
"""

Measured = dict[tuple[str, int, str, str], Reads]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def measured(postgres: PostgresServer, template: Database) -> AsyncIterator[Measured]:
    """What every call read, at every size, under all statistics, on both connections."""
    database = await create(postgres, source=template.name)
    async with (
        connected(database.url) as owner,
        connected(database.admin_url) as admin,
        connected(database.url) as old,
    ):
        await backlog.prepare(owner)
        found: Measured = {}
        for size in SIZES:
            await backlog.load(owner, 0)
            await owner.execute("ANALYZE penstock.job")
            await prepare_all(old)
            await backlog.load(owner, size, ended=min(size, 100_000))
            for statistics in STATISTICS:
                if statistics == "none":
                    await admin.execute(FORGET)
                elif statistics == "up to date":
                    await owner.execute("ANALYZE penstock.job, penstock.job_history")
                async with connected(database.url) as new:
                    for how, connection in zip(CONNECTIONS, (new, old), strict=True):
                        for name, (call, _) in (HOT | WATCHING).items():
                            reads = await reads_of(connection, call)
                            found[name, size, statistics, how] = reads
    yield found
    await drop(postgres, database)


async def prepare_all(connection: asyncpg.Connection) -> None:
    """More often than it takes Postgres to settle on a generic plan."""
    for _ in range(6):
        for call, _ in (HOT | WATCHING).values():
            await undone(connection, call)


CASES = list(product(SIZES, STATISTICS, CONNECTIONS))
# Twenty jobs by several steps, with entries that earlier calls left dead. The shortest backlog
# that is not empty has a thousand, so whoever reads all of it is found.
FEW_ENOUGH = 400


@pytest.mark.parametrize("name", HOT)
def test_what_is_read_does_not_grow_with_the_backlog(name: str, measured: Measured) -> None:
    read = {case: measured[(name, *case)] for case in CASES}
    assert {case: reads for case, reads in read.items() if reads.most() > FEW_ENOUGH} == {}


@pytest.mark.parametrize("name", HOT)
def test_jobs_are_found_by_the_index_that_is_made_for_it(name: str, measured: Measured) -> None:
    _, indexes = HOT[name]
    read = {case: measured[(name, *case)] for case in CASES}
    assert {case: reads for case, reads in read.items() if reads.entries.keys() - indexes} == {}
    assert {case: reads for case, reads in read.items() if reads.rows} == {}


@pytest.mark.parametrize("name", WATCHING)
def test_who_watches_reads_little_of_a_long_backlog(name: str, measured: Measured) -> None:
    _, indexes = WATCHING[name]
    read = {case: measured[(name, *case)] for case in CASES if case[0] == SIZES[-1]}
    assert {case: reads for case, reads in read.items() if reads.most() > FEW_ENOUGH} == {}
    assert {case: reads for case, reads in read.items() if reads.entries.keys() - indexes} == {}
    assert {case: reads for case, reads in read.items() if "job" in reads.rows} == {}


async def test_the_counters_see_a_table_that_is_read_from_end_to_end(database: Database) -> None:
    async with database.connect() as connection:
        await backlog.load(connection, 1_000)
        reads = await reads_of(
            connection, lambda it: it.fetch("SELECT FROM penstock.job WHERE task = 'other'")
        )
    assert reads.rows == {"job": 1_000}
