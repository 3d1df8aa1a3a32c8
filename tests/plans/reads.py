"""What a call really read: not an EXPLAIN of a copy, but the server's own counters around the call.

A plan inside a function cannot be seen from outside, and its text run apart may be planned
otherwise. The counters cannot drift: they say how many entries of which index were read, and how
many rows of a table that was read from end to end.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import asyncpg

from tests.plans.calls import Call

# In the order that is cheap: the tables, then what hangs on each. Asked twice around every call.
COUNTERS = """
WITH found AS MATERIALIZED (
    SELECT oid, relispartition FROM pg_class
     WHERE relnamespace = 'penstock'::regnamespace AND relname ~ '^job(_history_[0-9]{8})?$'
), counted AS MATERIALIZED (
    SELECT oid, relispartition FROM found
    UNION ALL
    SELECT i.indexrelid, f.relispartition FROM found AS f JOIN pg_index AS i ON i.indrelid = f.oid
)
SELECT CASE WHEN k.relispartition THEN regexp_replace(c.relname, '_[0-9]{8}', '')
            ELSE c.relname END AS name,
       c.relkind::text AS kind,
       sum(pg_stat_get_xact_tuples_returned(c.oid))::bigint AS read
  FROM counted AS k JOIN pg_class AS c ON c.oid = k.oid
 GROUP BY 1, 2
"""


@dataclass(frozen=True, slots=True)
class Reads:
    """Of live jobs and history only: the other tables are small."""

    rows: dict[str, int]  # by table: rows read from end to end
    entries: dict[str, int]  # by index: entries read, dead ones included

    def most(self) -> int:
        return max([*self.rows.values(), *self.entries.values()], default=0)


async def reads_of(connection: asyncpg.Connection, call: Call) -> Reads:
    """What the call reads; what it writes is rolled back."""
    async with _rolled_back(connection):
        before = await _counters(connection)
        await _tried(connection, call)
        after = await _counters(connection)
    read = {key: after[key] - before[key] for key in after}
    return Reads(
        rows={name: n for (name, kind), n in read.items() if kind == "r" and n},
        entries={name: n for (name, kind), n in read.items() if kind == "i" and n},
    )


async def undone(connection: asyncpg.Connection, call: Call) -> None:
    """The call alone; what it writes is rolled back."""
    async with _rolled_back(connection):
        await _tried(connection, call)


@asynccontextmanager
async def _rolled_back(connection: asyncpg.Connection) -> AsyncIterator[None]:
    transaction = connection.transaction()
    await transaction.start()
    try:
        yield
    finally:
        await transaction.rollback()


async def _tried(connection: asyncpg.Connection, call: Call) -> None:
    with suppress(asyncpg.PostgresError):  # A fence in vain has looked as well.
        async with connection.transaction():
            await call(connection)


async def _counters(connection: asyncpg.Connection) -> dict[tuple[str, str], int]:
    rows = await connection.fetch(COUNTERS)
    return {(row["name"], row["kind"]): row["read"] for row in rows}
