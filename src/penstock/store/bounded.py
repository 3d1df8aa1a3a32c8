"""Reads that must not hurt: in a transaction that may not write, and only for so long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from penstock.store.connection import Connection
from penstock.store.store import Store

# A server that has not even said by then that it gave up will say nothing any more.
SILENCE = 2.0


class BoundedReader:
    """Asks on one connection; the server gives each question up after so many seconds.

    reader = BoundedReader(Store(), connection, seconds=5)
    rows = await reader.rows("list_paused_queues")
    """

    def __init__(self, store: Store, connection: Connection, seconds: float) -> None:
        self.store = store
        self.connection = connection
        self.seconds = seconds

    async def rows(self, name: str, *values: Any) -> list[asyncpg.Record]:
        """The rows of one statement."""
        async with self.bounds():
            return await self.connection.fetch(self.store.statement(name), *values)

    @asynccontextmanager
    async def bounds(self) -> AsyncIterator[Connection]:
        """The connection within the bounds, for those who ask in their own words."""
        loop = asyncio.get_running_loop()
        watchdog = loop.call_later(self.seconds + SILENCE, self.connection.terminate)
        try:
            # Read committed, whatever the default: serializable, others' writes could make it fail.
            async with self.connection.transaction(isolation="read_committed", readonly=True):
                limit = f"{round(self.seconds * 1000)}ms"
                await self.connection.fetch(self.store.statement("limit_reads"), limit)
                yield self.connection
        finally:
            watchdog.cancel()
