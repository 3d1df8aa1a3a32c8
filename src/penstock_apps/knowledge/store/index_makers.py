"""Two ways to make an index: while others write, or while they wait."""

from __future__ import annotations

from typing import Any, Protocol

import asyncpg

from penstock_apps.knowledge.store.tables import TablePool

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
