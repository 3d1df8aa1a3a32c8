"""Indexes of vectors: a large edition has one of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
from msgspec import Struct

from penstock_apps.knowledge.store.index_makers import Amid, Apart, Maker
from penstock_apps.knowledge.store.tables import Connection, TablePool


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
