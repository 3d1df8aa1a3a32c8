"""Read the database with a time limit, in transactions that cannot write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from penstock.store.connection import Connection
from penstock.store.store import Store

# If the server has not even reported the timeout by then, no answer will come any more.
TIMEOUT_GRACE_S = 2.0


class BoundedReader:
    """Run read-only statements on one connection; the server cancels each after `seconds`.

    reader = BoundedReader(Store(), connection, seconds=5)
    rows = await reader.rows("list_paused_queues")
    """

    def __init__(self, store: Store, connection: Connection, seconds: float) -> None:
        self.store = store
        self.connection = connection
        self.seconds = seconds

    async def rows(self, name: str, *values: Any) -> list[asyncpg.Record]:
        """Return the rows of one statement."""
        async with self.bounds():
            return await self.connection.fetch(self.store.statement(name), *values)

    @asynccontextmanager
    async def bounds(self) -> AsyncIterator[Connection]:
        """Open a read-only transaction with the time limit, for SQL that is not a named statement.

        If the server does not keep to the limit, the connection is terminated.
        """
        loop = asyncio.get_running_loop()
        watchdog = loop.call_later(self.seconds + TIMEOUT_GRACE_S, self.connection.terminate)
        try:
            # Read committed, whatever the default: under serializable, concurrent writes could make
            # the read fail.
            async with self.connection.transaction(isolation="read_committed", readonly=True):
                limit = f"{round(self.seconds * 1000)}ms"
                await self.connection.fetch(self.store.statement("limit_reads"), limit)
                yield self.connection
        finally:
            watchdog.cancel()
