"""PgQueuer's queue in a schema of its own, durable, with the autovacuum settings it advises."""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import asyncpg
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries
from pgqueuer_settings import Settings

from penstock.bench import snapshot
from penstock.bench.place import Connection, on_our_clock

WORKER = (sys.executable, str(Path(__file__).with_name("pgqueuer_worker.py")))


class PgQueuerPlace:
    """A place to measure, as penstock.bench.place describes it."""

    def __init__(self, url: str, schema: str, connection: Connection) -> None:
        self.url = url
        self.schema = schema
        self.connection = connection
        self.queries = Queries(AsyncpgDriver(connection))
        self.settings = Settings()

    @property
    def worker(self) -> Sequence[str]:
        return (*WORKER, *self.settings.arguments())

    async def clear(self) -> None:
        await self.connection.execute("TRUNCATE pgqueuer, pgqueuer_log, pgqueuer_statistics")

    async def refill(self, jobs: int) -> float:
        await self.clear()
        began = time.monotonic()
        await self.queries.enqueue(
            ["noop"] * jobs, [str(number).encode() for number in range(jobs)], [0] * jobs
        )
        seconds = time.monotonic() - began
        await self.connection.execute("VACUUM (ANALYZE) pgqueuer")
        return seconds

    async def enqueue(self, number: int) -> None:
        await self.queries.enqueue("noop", str(number).encode())

    async def enqueue_stamp(self, number: int) -> None:
        await self.queries.enqueue("stamp", str(number).encode())

    async def first_claim(self) -> float:
        claimed = await self.connection.fetchval(
            "SELECT min(created) FROM pgqueuer_log WHERE status = 'picked'"
        )
        return await on_our_clock(self.connection, claimed)

    async def left(self) -> int:
        return int(await self.connection.fetchval("SELECT count(*) FROM pgqueuer"))

    def held_snapshot(self) -> AbstractAsyncContextManager[None]:
        return snapshot.held(self.url)


@asynccontextmanager
async def open_pgqueuer(url: str) -> AsyncIterator[PgQueuerPlace]:
    """A fresh installation; dropped at the end."""
    schema = f"pgqueuer_bench_{secrets.token_hex(3)}"
    connection = await asyncpg.connect(url, server_settings={"search_path": schema})
    await connection.execute("CREATE SCHEMA " + schema)
    try:
        place = PgQueuerPlace(url, schema, connection)
        await place.queries.install()
        await place.queries.optimize_autovacuum()
        yield place
    finally:
        await connection.execute("DROP SCHEMA " + schema + " CASCADE")
        await connection.close()
