"""Indexes of vectors: a large edition has one of its own, made while others write or wait."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

import asyncpg
from msgspec import Struct

from penstock_apps.knowledge.store.tables import Connection, TablePool

# Whoever comes after us waits as long for the chunks as we do.
BRIEFLY = "SET lock_timeout = '2s'"
ALONE = "SET max_parallel_maintenance_workers = 0"


class Maker(Protocol):
    """Makes and drops indexes, in its turn; `on` is where it asks."""

    on: Any

    async def make(self, edition: int, memory: int) -> bool:
        """Make an edition's index, with so many bytes; False: try again in a moment."""

    async def drop(self, edition: int) -> bool:
        """Drop it, whole or not; False: try again in a moment."""


class Apart:
    """In a session of our own, as the owner of the chunks: others go on to write."""

    def __init__(self, on: Any, tables: TablePool) -> None:
        self.on = on
        self._sql = tables.statement
        self._call = tables.call

    async def make(self, edition: int, memory: int) -> bool:
        described = await self.on.fetchval(self._call("describe_index"), edition, "CONCURRENTLY")
        if described is None:
            return True
        await self.on.execute(f"SET maintenance_work_mem = '{memory // 1024}kB'")
        try:
            await self._build(described)
        except asyncpg.DiskFullError:
            # Of the memory that processes share: containers may have little.
            if not await self.drop(edition):
                return False
            await self.on.execute(ALONE)
            await self._build(described)
        except asyncpg.DeadlockDetectedError:
            # Who analyzes the table waits for us, and we for them.
            return False
        return True

    async def drop(self, edition: int) -> bool:
        await self.on.execute(BRIEFLY)
        try:
            await self.on.execute(self._sql("drop_index_concurrently").replace("$1", str(edition)))
        except asyncpg.LockNotAvailableError:
            return False
        return True

    async def _build(self, described: str) -> None:
        """However long others keep us waiting."""
        await self.on.fetch(self._sql("lift_timeouts"), False)
        await self.on.execute(described)


class Amid:
    """In a transaction, by functions that are the owner's: whoever writes chunks waits."""

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
    """The index of an edition; `whole` once it is made, `wanted` while its edition is there."""

    edition: int
    whole: bool
    wanted: bool
    tenant: str | None


class Indexes:
    """Looks at indexes, and lets one at a time make or drop them."""

    def __init__(self, tables: TablePool) -> None:
        self._tables = tables
        self._sql = tables.statement

    async def all(self, on: Connection) -> list[Index]:
        return [Index(*row) for row in await on.fetch(self._sql("list_indexes"))]

    async def find(self, on: Connection, edition: int) -> Index | None:
        """The index of an edition, whole or not."""
        return next((each for each in await self.all(on) if each.edition == edition), None)

    async def weigh(self, on: Connection, edition: int, most: int) -> int:
        """How many chunks an edition has, counted up to a number."""
        number: int = await on.fetchval(self._sql("count_chunks"), edition, most)
        return number

    async def dimensions(self, on: Connection, edition: int) -> int:
        """How many its vectors have; none if it is gone."""
        number: int | None = await on.fetchval(self._sql("get_edition_dimensions"), edition)
        return number or 0

    async def some(self, on: Connection, most: int, *, growing: bool) -> list[tuple[str, int]]:
        """Some editions that are searched: into which documents come just now, or others."""
        rows = await on.fetch(self._sql("pick_editions"), most, growing)
        return [(row["tenant"], row["edition"]) for row in rows]

    async def searched(self, on: Connection, tenant: str, sources: Sequence[int]) -> list[int]:
        """The editions in which sources are searched."""
        rows = await on.fetch(self._sql("find_searched_editions"), tenant, list(sources))
        return [row["edition"] for row in rows]

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[Maker | None]:
        """A turn to make and to drop indexes; None while another has it.

        Whoever writes chunks goes on meanwhile, unless we do not own them or share our session.
        It takes no connection of the pool: who waits for a turn keeps others from nothing.
        """
        async with self._tables.apart() as session:
            mine = await self._locked(session)
            if mine is not None:
                yield Apart(session, self._tables) if mine else None
                return
            async with session.transaction():
                yield Amid(session, self._tables)

    async def drop(self, edition: int) -> bool:
        """Drop an edition's index, if it has one; False if that cannot be now: the sweep will."""
        async with self._tables.of_all() as on:
            if await self.find(on, edition) is None:
                return True
        try:
            async with self.turn() as maker:
                return maker is not None and await maker.drop(edition)
        except (asyncpg.PostgresError, OSError):
            return False

    async def _locked(self, session: Any) -> bool | None:
        """Whether nobody else makes or drops indexes; None: it cannot be done in this session."""
        locked: bool | None = await session.fetchval(
            self._sql("lock_indexes"), session.get_server_pid()
        )
        return locked
