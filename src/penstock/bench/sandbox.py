"""Create and drop the schema that the bench measures in, and describe its server."""

from __future__ import annotations

import asyncio
import os
import platform
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import asyncpg

from penstock import hosts
from penstock.app.app import Penstock
from penstock.bench import tasks
from penstock.bench.child import BenchFailed, module_command
from penstock.config import Database
from penstock.connect.connector import hold_embedded
from penstock.errors import DatabaseError
from penstock.sql import quote
from penstock.store.connection import Connection
from penstock.tasks import Task


@asynccontextmanager
async def hold_snapshot(url: str) -> AsyncIterator[None]:
    """Hold an old snapshot in another session, as a long report or a forgotten transaction does.

    While it is held, vacuum cannot remove rows that are deleted or updated.
    """
    other = await hosts.connect(url)
    try:
        async with other.transaction(isolation="repeatable_read"):
            await other.fetchval("SELECT pg_current_xact_id()")
            yield
    finally:
        await other.close()


QUEUE = "default"
WORKER = module_command("penstock.bench.worker")
JOBS_PER_ENQUEUE = 100_000
JOBS_PER_FAST_ENQUEUE = 200_000

# It makes the same jobs on the server, without sending them from a client.
FILL_FAST = """
SELECT count(*) FROM enqueue_v1(
    array_fill('bench.noop'::text, ARRAY[$1::integer]),
    ARRAY(SELECT format('{"number": %s}', n) FROM generate_series(1, $1) AS n),
    p_timeouts => array_fill(3600::double precision, ARRAY[$1]))
"""


class Sandbox:
    """A new queue, its app, and a separate connection that reads and fills the tables."""

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
        """Empty the tables, so that all measurements start from the same state."""
        await self.connection.execute(
            'TRUNCATE job, job_history, lease, leader, "grant", bucket, batch, batch_delta'
        )

    async def fill(
        self, jobs: int, tenants: Sequence[str] = (), *, task: Task[..., Any] = tasks.noop
    ) -> float:
        """Enqueue no-ops in bulk, and return how many seconds that took.

        The time includes making and checking the requests. The jobs are assigned to the tenants in
        turn. Without tenants, the jobs belong to none.
        """
        variants = [task.options(tenant=name) for name in tenants] or [task]
        began = time.monotonic()
        for start in range(0, jobs, JOBS_PER_ENQUEUE):
            numbers = range(start, min(start + JOBS_PER_ENQUEUE, jobs))
            await self.app.enqueue_many(
                variants[number % len(variants)].prepare(number) for number in numbers
            )
        return time.monotonic() - began

    async def fill_batch(self, jobs: int) -> float:
        """Enqueue no-ops as one closed batch, and return how many seconds that took."""
        began = time.monotonic()
        async with self.app.batch() as batch:
            await batch.enqueue_many(tasks.noop.prepare(number) for number in range(jobs))
        return time.monotonic() - began

    async def fill_fast(self, jobs: int) -> None:
        """Enqueue no-ops on the server, for measurements that do not time the enqueue."""
        for start in range(0, jobs, JOBS_PER_FAST_ENQUEUE):
            await self.connection.fetchval(FILL_FAST, min(JOBS_PER_FAST_ENQUEUE, jobs - start))

    async def vacuum(self) -> None:
        """Update statistics and the visibility map, as autovacuum soon would."""
        await self.connection.execute("VACUUM (ANALYZE) job")

    async def refill(self, jobs: int, tenants: Sequence[str] = ()) -> float:
        """Empty the queue, fill it, and return how many seconds the enqueue took."""
        await self.clear()
        seconds = await self.fill(jobs, tenants)
        await self.vacuum()
        return seconds

    async def enqueue(self, number: int, tenant: str = "") -> None:
        await self.app.enqueue(tasks.noop.options(tenant=tenant) if tenant else tasks.noop, number)

    async def enqueue_stamp(self, number: int) -> None:
        await self.app.enqueue(tasks.stamp, number)

    async def first_claim_time(self) -> float:
        """Return when the first claim began, on this machine's monotonic clock."""
        claimed = await self.connection.fetchval("SELECT min(attempted_at) FROM job_history")
        return await _to_monotonic(self.connection, claimed)

    async def count_live_jobs(self) -> int:
        return int(await self.connection.fetchval("SELECT count(*) FROM job"))

    def held_snapshot(self) -> AbstractAsyncContextManager[None]:
        return hold_snapshot(self.url)


@asynccontextmanager
async def open_sandbox(database: Database) -> AsyncIterator[Sandbox]:
    """Create a schema in the database, and drop it at the end of the block.

    Without a database URL the embedded server is started.
    """
    async with _database_url(database) as url:
        app = Penstock(url, schema=f"penstock_bench_{secrets.token_hex(3)}")
        schema = app.database.schema
        try:
            await app.migrate()
            connection = await hosts.connect(url, server_settings={"search_path": schema})
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, DatabaseError) as error:
            raise BenchFailed(f"The bench cannot use this database: {error}") from error
        try:
            yield Sandbox(app, connection)
        finally:
            await app.close()
            await connection.execute("DROP SCHEMA " + quote(schema) + " CASCADE")
            await connection.close()


@asynccontextmanager
async def _database_url(database: Database) -> AsyncIterator[str]:
    if database.url is not None:
        yield database.url
        return
    hold = await asyncio.to_thread(hold_embedded, database)
    try:
        yield hold.url
    finally:
        await asyncio.to_thread(hold.release)


async def _to_monotonic(connection: Connection, at: datetime) -> float:
    """Convert a time of the server's clock to this machine's monotonic clock."""
    before = time.monotonic()
    now: datetime = await connection.fetchval("SELECT clock_timestamp()")
    return (before + time.monotonic()) / 2 - (now - at).total_seconds()


DURABILITY_SETTINGS = """
SELECT current_setting('server_version') AS postgres,
       current_setting('fsync') AS fsync,
       current_setting('synchronous_commit') AS synchronous_commit,
       current_setting('full_page_writes') AS full_page_writes
"""


@dataclass(frozen=True, slots=True)
class SandboxServer:
    """The server's version, and the settings that decide whether commits survive a crash."""

    postgres: str
    fsync: str
    synchronous_commit: str
    full_page_writes: str

    @classmethod
    async def of(cls, connection: Connection) -> SandboxServer:
        row = await connection.fetchrow(DURABILITY_SETTINGS)
        assert row is not None
        return cls(**dict(row))

    @property
    def is_durable(self) -> bool:
        return (
            self.fsync == "on"
            and self.full_page_writes == "on"
            and self.synchronous_commit not in ("off", "local")
        )

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "python": platform.python_version()}


def machine() -> dict[str, Any]:
    """Describe this machine and its load."""
    has_affinity = hasattr(os, "sched_getaffinity")
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count(),
        "load_before": round(os.getloadavg()[0], 2),
    }
