"""Batches are read and changed by their own indexes, however many jobs there are beside them."""

from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import product

import asyncpg
import pytest
import pytest_asyncio

from penstock.store import Store
from penstock.store.batches import Batches
from tests.fixtures.database import Database, connected, create, drop
from tests.fixtures.server import PostgresServer
from tests.plans.reads import Reads, reads_of
from tests.plans.test_plans import FORGET

OTHERS, OF_BATCH, FEW = 5_000, 1_000, 20
STORE = Store()
BATCHES = Batches(STORE)


def _enqueue(count: int, more: str = "") -> str:
    filled = f"array_fill('%s'::text, ARRAY[{count}])"
    return f"SELECT count(*) FROM penstock.enqueue_v1({filled % 'work'}, {filled % '{}'}{more});"


# A batch that ended before all others, and one that waits behind them.
FILL = f"""
INSERT INTO penstock.batch DEFAULT VALUES;
INSERT INTO penstock.batch DEFAULT VALUES;
{_enqueue(OF_BATCH, ", p_batch => 1")}
SELECT count(*) FROM penstock.cancel_v1(ARRAY(SELECT id FROM penstock.job));
{_enqueue(OTHERS)}
SELECT count(*) FROM penstock.cancel_v1(
    ARRAY(SELECT id FROM penstock.job ORDER BY id LIMIT {OTHERS // 2}));
{_enqueue(OF_BATCH, ", p_batch => 2")}
"""

Call = Callable[[asyncpg.Connection], Awaitable[object]]


def listed(batch: int) -> Call:
    return lambda on: STORE.list_jobs(on, *[None] * 7, FEW, batch=batch)


CALLS: dict[str, Call] = {
    "counts": lambda on: BATCHES.get(on, [1, 2]),
    "jobs of one that ended": listed(1),
    "jobs of one that waits": listed(2),
    "cancel": lambda on: BATCHES.cancel(on, 2, 0, FEW, "requested"),
}
STATISTICS = ("none", "up to date")
CONNECTIONS = ("new", "with generic plans")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def measured(
    postgres: PostgresServer, template: Database
) -> AsyncIterator[dict[tuple[str, str, str], Reads]]:
    database = await create(postgres, source=template.name)
    found: dict[tuple[str, str, str], Reads] = {}
    async with connected(database.url) as owner, connected(database.admin_url) as admin:
        await owner.execute(FILL)
        for statistics in STATISTICS:
            await admin.execute(FORGET)
            if statistics == "up to date":
                await owner.execute("ANALYZE penstock.job, penstock.job_history")
            for how in CONNECTIONS:
                async with connected(database.url) as connection:
                    if how == "with generic plans":
                        await connection.execute("SET plan_cache_mode = force_generic_plan")
                    for name, call in CALLS.items():
                        found[name, statistics, how] = await reads_of(connection, call)
    yield found
    await drop(postgres, database)


@pytest.mark.parametrize("name", CALLS)
def test_what_is_read_is_what_is_asked_for(
    name: str, measured: dict[tuple[str, str, str], Reads]
) -> None:
    cases = {case: measured[(name, *case)] for case in product(STATISTICS, CONNECTIONS)}
    assert {case: reads for case, reads in cases.items() if reads.rows} == {}
    # To sort those of the batch is fine for who looks, not for who changes many in pieces.
    most = OF_BATCH if name.startswith("jobs") else 20 * FEW
    assert {case: reads for case, reads in cases.items() if reads.most() > most} == {}
