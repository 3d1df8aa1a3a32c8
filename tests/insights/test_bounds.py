"""Whoever looks reads a bounded number of rows, whatever the statistics say."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from penstock.insights import Insights
from penstock.store import Store
from tests.fixtures.database import Database, connected, create, drop
from tests.fixtures.server import PostgresServer
from tests.insights.history import fill
from tests.plans import backlog
from tests.plans.reads import Reads, reads_of
from tests.plans.test_plans import FORGET

pytestmark = pytest.mark.timeout(300)

LIVE = 200_000
ENDED = 100_000
COUNTED = 500

Look = Callable[[Insights], Awaitable[Any]]

# The most rows or entries of one table or index that a look may read; 200,000 live. A worker's
# running jobs are counted to 10,000, and here one has that many.
LOOKS: dict[str, tuple[Look, int]] = {
    "queues": (lambda it: it.queues(count_to=COUNTED), 12_000),
    "workers": (lambda it: it.workers(), 12_000),
    "running": (lambda it: it.running(20), 12_000),
    "failures": (lambda it: it.failures(20), 100),
    "throughput": (lambda it: it.throughput([60], blocks=64), 64 * 64),
    "job": (lambda it: it.job("150000"), 12_000),
    "lanes": (lambda it: it.lanes("default"), 65_000),
    "limits": (lambda it: it.limits(), 65_000),
    "late": (lambda it: it.late(20), 12_000),
    "depths": (lambda it: it.depths(count_to=COUNTED), 12_000),
    "health": (lambda it: it.health(), 35_000),
    "overview": (lambda it: it.overview(), 35_000),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def read(
    postgres: PostgresServer, template: Database
) -> AsyncIterator[dict[tuple[str, str], Reads]]:
    """What every look read of a long backlog and a long history, analysed and not."""
    database = await create(postgres, source=template.name)
    found: dict[tuple[str, str], Reads] = {}
    async with connected(database.url) as owner, connected(database.admin_url) as admin:
        await backlog.prepare(owner)
        await backlog.load(owner, LIVE)
        await owner.execute(
            "INSERT INTO penstock.queue (name, fair, late_after) VALUES ('default', true, 60)"
        )
        await owner.execute("INSERT INTO penstock.limit_setting VALUES ('queue:default', 0)")
        await fill(owner, ENDED, per_second=1000)
        await owner.execute("ANALYZE penstock.job, penstock.job_history")
        await _look(database, "up to date", found)
        await admin.execute(FORGET)
        await _look(database, "none", found)
    yield found
    await drop(postgres, database)


async def _look(database: Database, statistics: str, found: dict[tuple[str, str], Reads]) -> None:
    async with connected(database.url) as connection:
        insights = Insights(Store(), connection)
        for name, (look, _) in LOOKS.items():
            found[name, statistics] = await reads_of(connection, lambda _, it=look: it(insights))


@pytest.mark.parametrize("name", LOOKS)
def test_what_is_read_does_not_grow_with_the_backlog(
    name: str, read: dict[tuple[str, str], Reads]
) -> None:
    reads = read[name, "up to date"]
    assert reads.most() <= LOOKS[name][1], reads


@pytest.mark.parametrize("name", LOOKS)
def test_without_statistics_no_table_is_read_from_end_to_end(
    name: str, read: dict[tuple[str, str], Reads]
) -> None:
    reads = read[name, "none"]
    assert max(reads.rows.values(), default=0) <= 35_000, reads
    assert reads.entries.get("job_ready", 0) <= max(12_000, LOOKS[name][1]), reads


async def test_the_looks_do_look(connection: asyncpg.Connection) -> None:
    await backlog.prepare(connection)
    await backlog.load(connection, 1000)
    insights = Insights(Store(), connection)
    overview = await insights.overview()
    assert [queue.name for queue in overview.queues] == ["default"]
    assert len(overview.workers) == 20
    assert len(overview.running) == 20
