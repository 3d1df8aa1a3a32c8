"""Reads that must not hurt: in a transaction that may not write, and only for so long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from penstock import sql
from penstock.store.connection import Connection

# A server that has not even said by then that it gave up will say nothing any more.
SILENCE = 2.0


@asynccontextmanager
async def bounded(connection: Connection, seconds: float) -> AsyncIterator[None]:
    """A transaction for reading whose statements the server gives up after so many seconds.

    async with bounded(connection, 5):
        rows = await connection.fetch(…)
    """
    watchdog = asyncio.get_running_loop().call_later(seconds + SILENCE, connection.terminate)
    try:
        # Read committed, whatever the default: a serializable reader could fail for others' writes.
        async with connection.transaction(isolation="read_committed", readonly=True):
            await connection.fetch(sql.statement("bound_reading", ""), f"{round(seconds * 1000)}ms")
            yield
    finally:
        watchdog.cancel()
