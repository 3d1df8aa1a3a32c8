"""Where the bench works: a schema of its own in the given database, dropped at the end."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from typing import Any

import asyncpg

from penstock import hosts
from penstock.app.app import Penstock
from penstock.bench import snapshot, tasks
from penstock.bench.child import module
from penstock.bench.errors import BenchFailed
from penstock.config import Database
from penstock.connect.connector import hold_embedded
from penstock.errors import DatabaseError
from penstock.sql import quote
from penstock.store.connection import Connection
from penstock.tasks import Task

QUEUE = "default"
WORKER = module("penstock.bench.worker")
AT_ONCE = 100_000
FAST_AT_ONCE = 200_000

# The same jobs without the way from a client to the server.
FILL_FAST = """
SELECT count(*) FROM enqueue_v1(
    array_fill('bench.noop'::text, ARRAY[$1::integer]),
    ARRAY(SELECT format('{"number": %s}', n) FROM generate_series(1, $1) AS n),
    p_timeouts => array_fill(3600::double precision, ARRAY[$1]))
"""


class Ground:
    """A fresh queue, its app, and a connection that looks at it from outside."""

    worker = WORKER

    def __init__(self, app: Penstock, connection: Connection) -> None:
        self.app = app
        self.connection = connection

    @property
    def url(self) -> str:
        return self.app.url

    @property
    def schema(self) -> str:
        return self.app.database.schema

    async def clear(self) -> None:
        """Back to empty tables, so that each measurement begins alike."""
        await self.connection.execute(
            'TRUNCATE job, job_history, lease, leader, "grant", bucket, batch, batch_delta'
        )

    async def fill(
        self, jobs: int, tenants: Sequence[str] = (), *, task: Task[..., Any] = tasks.noop
    ) -> float:
        """Enqueue no-ops in bulk; the seconds it took, requests made and checked included.

        They belong to the tenants in turn, or to nobody.
        """
        owned = [task.options(tenant=name) for name in tenants] or [task]
        began = time.monotonic()
        for start in range(0, jobs, AT_ONCE):
            numbers = range(start, min(start + AT_ONCE, jobs))
            await self.app.enqueue_many(
                owned[number % len(owned)].prepare(number) for number in numbers
            )
        return time.monotonic() - began

    async def fill_batch(self, jobs: int) -> float:
        """As `fill`, all as one batch, which is closed."""
        began = time.monotonic()
        async with self.app.batch() as batch:
            await batch.enqueue_many(tasks.noop.prepare(number) for number in range(jobs))
        return time.monotonic() - began

    async def fill_fast(self, jobs: int) -> None:
        """Enqueue no-ops on the server, where the time it takes is not the point."""
        for start in range(0, jobs, FAST_AT_ONCE):
            await self.connection.fetchval(FILL_FAST, min(FAST_AT_ONCE, jobs - start))

    async def tidy(self) -> None:
        """Statistics and visibility as autovacuum would soon have made them."""
        await self.connection.execute("VACUUM (ANALYZE) job")

    async def refill(self, jobs: int, tenants: Sequence[str] = ()) -> float:
        """Only so many new jobs; the seconds that the enqueue took."""
        await self.clear()
        seconds = await self.fill(jobs, tenants)
        await self.tidy()
        return seconds

    async def enqueue(self, number: int, tenant: str = "") -> None:
        await self.app.enqueue(tasks.noop.options(tenant=tenant) if tenant else tasks.noop, number)

    async def enqueue_stamp(self, number: int) -> None:
        await self.app.enqueue(tasks.stamp, number)

    async def first_claim(self) -> float:
        """When the first claim began, on this machine's monotonic clock."""
        claimed = await self.connection.fetchval("SELECT min(attempted_at) FROM job_history")
        return await _on_our_clock(self.connection, claimed)

    async def left(self) -> int:
        """How many jobs are still live."""
        return int(await self.connection.fetchval("SELECT count(*) FROM job"))

    def held_snapshot(self) -> AbstractAsyncContextManager[None]:
        return snapshot.held(self.url)


@asynccontextmanager
async def open_ground(database: Database) -> AsyncIterator[Ground]:
    """A new schema in the database; an embedded server is started if need be."""
    async with _address(database) as url:
        app = Penstock(url, schema=f"penstock_bench_{secrets.token_hex(3)}")
        schema = app.database.schema
        try:
            await app.migrate()
            connection = await hosts.connect(url, server_settings={"search_path": schema})
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, DatabaseError) as error:
            raise BenchFailed(f"The bench cannot use this database: {error}") from error
        try:
            yield Ground(app, connection)
        finally:
            await app.close()
            await connection.execute("DROP SCHEMA " + quote(schema) + " CASCADE")
            await connection.close()


@asynccontextmanager
async def _address(database: Database) -> AsyncIterator[str]:
    if database.url is not None:
        yield database.url
        return
    hold = await asyncio.to_thread(hold_embedded, database)
    try:
        yield hold.url
    finally:
        await asyncio.to_thread(hold.release)


async def _on_our_clock(connection: Connection, at: datetime) -> float:
    """A time of the server's clock on this machine's monotonic one."""
    before = time.monotonic()
    now: datetime = await connection.fetchval("SELECT clock_timestamp()")
    return (before + time.monotonic()) / 2 - (now - at).total_seconds()
