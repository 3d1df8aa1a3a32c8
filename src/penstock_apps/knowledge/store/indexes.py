"""Indexes of vectors: a large edition has one of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import asyncpg
from msgspec import Struct

from penstock_apps.knowledge.store.shelves import Connection, Shelves

PATIENT = "SET statement_timeout = 0; SET lock_timeout = 0"
ALONE = "SET max_parallel_maintenance_workers = 0"


class Index(Struct, frozen=True):
    """The index of an edition; `whole` once it is made, `wanted` while its edition is there."""

    edition: int
    whole: bool
    wanted: bool
    tenant: str | None


class Indexes:
    """Looks at indexes, makes and drops them, one at a time."""

    def __init__(self, shelves: Shelves) -> None:
        self._shelves = shelves
        self._sql = shelves.statement

    async def all(self, on: Connection) -> list[Index]:
        return [Index(*row) for row in await on.fetch(self._sql("list_indexes"))]

    async def weigh(self, on: Connection, edition: int, most: int) -> int:
        """How many chunks an edition has, counted up to a number."""
        number: int = await on.fetchval(self._sql("weigh_edition"), edition, most)
        return number

    async def dimensions(self, on: Connection, edition: int) -> int:
        """How many its vectors have; none if it is gone."""
        number: int | None = await on.fetchval(self._sql("get_dimensions"), edition)
        return number or 0

    async def growing(self, on: Connection, most: int) -> list[tuple[str, int]]:
        """Some editions into which documents come just now, with their tenants."""
        rows = await on.fetch(self._sql("list_growing"), most)
        return [(row["tenant"], row["edition"]) for row in rows]

    async def searched(self, on: Connection, tenant: str, sources: Sequence[int]) -> list[int]:
        """The editions in which sources are searched."""
        rows = await on.fetch(self._sql("find_editions"), tenant, list(sources))
        return [row["edition"] for row in rows]

    async def make(self, edition: int, memory: int) -> bool:
        """Make an edition's index anew, with so many bytes; False while another is made.

        Whoever writes chunks goes on meanwhile, unless we do not own them or share our session.
        """
        kilobytes = f"{memory // 1024}kB"
        async with self._shelves.apart() as on:
            mine = await self._locked(on)
            if mine:
                await on.execute(PATIENT)
                await on.execute(f"SET maintenance_work_mem = '{kilobytes}'")
                await self._make(on, edition)
        if mine is None:
            async with self._shelves.of_all() as shared:
                await shared.execute("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0")
                mine = await shared.fetchval(self._sql("make_index"), edition, kilobytes)
        return bool(mine)

    async def drop(self, edition: int) -> bool:
        """Drop an edition's index, if it has one; False while that cannot be: the sweep will."""
        async with self._shelves.of_all() as shared:
            if all(each.edition != edition for each in await self.all(shared)):
                return True
        async with self._shelves.apart() as on:
            mine = await self._locked(on)
            if mine:
                await on.execute(PATIENT)
                await self._drop(on, edition)
        if mine is None:
            async with self._shelves.of_all() as shared:
                mine = await shared.fetchval(self._sql("drop_index"), edition)
        return bool(mine)

    async def _locked(self, on: Any) -> bool | None:
        """Whether nobody else makes or drops indexes; None: it cannot be done in this session."""
        locked: bool | None = await on.fetchval(self._sql("lock_indexes"), on.get_server_pid())
        return locked

    async def _make(self, on: Any, edition: int) -> None:
        described = await on.fetchval(self._sql("describe_index"), edition)
        if described is None:
            return
        await self._drop(on, edition)
        try:
            await on.execute(described)
        except asyncpg.DiskFullError:
            # Of the memory that processes share: containers may have little.
            await self._drop(on, edition)
            await on.execute(ALONE)
            await on.execute(described)

    async def _drop(self, on: Any, edition: int) -> None:
        await on.execute(self._sql("drop_index_apart").replace("$1", str(edition)))
