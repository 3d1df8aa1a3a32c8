"""Vector indexes. Each large edition has one, and only one at a time is built or dropped."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

import asyncpg
from msgspec import Struct

from penstock_apps.knowledge.store.tables import Connection, TablePool

# While this waits for its lock on the chunks, all later statements on them wait as well.
SHORT_LOCK_TIMEOUT = "SET lock_timeout = '2s'"
NO_PARALLEL_BUILD = "SET max_parallel_maintenance_workers = 0"


class IndexBuilder(Protocol):
    """Builds and drops indexes while it has the lock for them. The session `on` holds the lock."""

    on: Any

    async def make(self, edition: int, memory: int) -> bool:
        """Build an edition's index with at most `memory` bytes; return False to ask for a retry."""

    async def drop(self, edition: int) -> bool:
        """Drop an edition's index, complete or not; return False to ask for a retry."""


class ConcurrentBuilder:
    """Builds in its own session, as the owner of the table. Others can write chunks meanwhile."""

    def __init__(self, on: Any, tables: TablePool) -> None:
        self.on = on
        self._sql = tables.statement
        self._call = tables.call

    async def make(self, edition: int, memory: int) -> bool:
        statement = await self.on.fetchval(self._call("describe_index"), edition, "CONCURRENTLY")
        if statement is None:
            return True
        await self.on.execute(f"SET maintenance_work_mem = '{memory // 1024}kB'")
        try:
            await self._build(statement)
        except asyncpg.DiskFullError:
            # Parallel workers share memory in /dev/shm, of which containers may have little.
            if not await self.drop(edition):
                return False
            await self.on.execute(NO_PARALLEL_BUILD)
            await self._build(statement)
        except asyncpg.DeadlockDetectedError:
            # An ANALYZE of the table and this build can wait for each other.
            return False
        return True

    async def drop(self, edition: int) -> bool:
        await self.on.execute(SHORT_LOCK_TIMEOUT)
        try:
            await self.on.execute(self._sql("drop_index_concurrently").replace("$1", str(edition)))
        except asyncpg.LockNotAvailableError:
            return False
        return True

    async def _build(self, statement: str) -> None:
        """Build without a timeout, since others may keep it waiting for long."""
        await self.on.fetch(self._sql("lift_timeouts"), False)
        await self.on.execute(statement)


class TransactionalBuilder:
    """Builds in a transaction, with functions of the tables' owner. Others wait to write chunks."""

    def __init__(self, on: Any, tables: TablePool) -> None:
        self.on = on
        self._sql = tables.statement
        self._call = tables.call

    async def make(self, edition: int, memory: int) -> bool:
        await self.on.fetch(self._sql("lift_timeouts"), True)
        made: bool = await self.on.fetchval(
            self._call("make_index"), edition, f"{memory // 1024}kB"
        )
        return made

    async def drop(self, edition: int) -> bool:
        dropped: bool = await self.on.fetchval(self._call("drop_index"), edition)
        return dropped


class Index(Struct, frozen=True):
    """The index of an edition. `is_needed` is False once the edition is retired or deleted."""

    edition: int
    is_complete: bool
    is_needed: bool
    tenant: str | None


class Indexes:
    """Finds indexes, and lets one process at a time build or drop them."""

    def __init__(self, tables: TablePool) -> None:
        self._tables = tables
        self._sql = tables.statement

    async def all(self, on: Connection) -> list[Index]:
        return [Index(*row) for row in await on.fetch(self._sql("list_indexes"))]

    async def find(self, on: Connection, edition: int) -> Index | None:
        """Return the index of an edition, complete or not, or None."""
        return next((each for each in await self.all(on) if each.edition == edition), None)

    async def count_chunks(self, on: Connection, edition: int, limit: int) -> int:
        """Count the chunks of an edition, up to a limit."""
        number: int = await on.fetchval(self._sql("count_chunks"), edition, limit)
        return number

    async def get_dimensions(self, on: Connection, edition: int) -> int:
        """Return how many dimensions the vectors of an edition have; 0 if it is gone."""
        number: int | None = await on.fetchval(self._sql("get_edition_dimensions"), edition)
        return number or 0

    async def pick_editions(
        self, on: Connection, limit: int, *, growing: bool
    ) -> list[tuple[str, int]]:
        """Pick some live editions: those that documents are being added to, or the others."""
        rows = await on.fetch(self._sql("pick_editions"), limit, growing)
        return [(row["tenant"], row["edition"]) for row in rows]

    async def find_searched_editions(
        self, on: Connection, tenant: str, sources: Sequence[int]
    ) -> list[int]:
        """Return the live editions of the bases that these sources are in."""
        rows = await on.fetch(self._sql("find_searched_editions"), tenant, list(sources))
        return [row["edition"] for row in rows]

    @asynccontextmanager
    async def exclusive_builder(self) -> AsyncIterator[IndexBuilder | None]:
        """Yield a builder of indexes, or None while another session has the lock for building.

        Others can write chunks during a build, unless this role does not own the tables or a pooler
        shares its session. In these cases, the builder takes the lock only when it builds. The
        session is not from the pool, so a long build takes no connection from jobs.
        """
        async with self._tables.own_session() as session:
            is_locked = await self._try_lock(session)
            if is_locked is not None:
                yield ConcurrentBuilder(session, self._tables) if is_locked else None
                return
            async with session.transaction():
                yield TransactionalBuilder(session, self._tables)

    async def drop(self, edition: int) -> bool:
        """Drop an edition's index, if any; return False if a later sweep has to do it."""
        async with self._tables.transaction_of_all() as on:
            if await self.find(on, edition) is None:
                return True
        try:
            async with self.exclusive_builder() as builder:
                return builder is not None and await builder.drop(edition)
        except (asyncpg.PostgresError, OSError):
            return False

    async def _try_lock(self, session: Any) -> bool | None:
        """Take the lock if it is free, and return whether it was.

        Return None if this session cannot build concurrently.
        """
        locked: bool | None = await session.fetchval(
            self._sql("lock_indexes"), session.get_server_pid()
        )
        return locked
