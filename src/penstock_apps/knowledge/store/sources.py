"""Where documents come from: an upload, a folder, a URL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct

from penstock_apps.knowledge.errors import NotFound
from penstock_apps.knowledge.store.tables import Connection, TablePool

Kind = Literal["files", "url", "text", "site"]


class NewSource(Struct, frozen=True):
    """A source that is to be made; with a key it is found again."""

    kind: Kind
    name: str
    key: str | None = None


class Source(Struct, frozen=True):
    """A source of documents."""

    id: int
    tenant: str
    base: int
    kind: Kind
    name: str
    key: str | None
    batch: str | None
    requested_by: str | None
    created_at: datetime
    ended_at: datetime | None


class Sources:
    """The sources of tenants."""

    def __init__(self, tables: TablePool) -> None:
        self._sql = tables.statement

    async def make(self, on: Connection, tenant: str, base: int, source: NewSource) -> int:
        """Make a source, or find the one with its key."""
        if await on.fetchrow(self._sql("lock_base"), tenant, base) is None:
            raise NotFound("knowledge base", str(base))
        made: int = await on.fetchval(
            self._sql("make_source"), tenant, base, source.kind, source.name, source.key
        )
        return made

    async def find(
        self, on: Connection, tenant: str, base: int, kind: Kind, key: str
    ) -> int | None:
        """The source with a key."""
        found: int | None = await on.fetchval(self._sql("find_source"), tenant, base, kind, key)
        return found

    async def copies(
        self, on: Connection, tenant: str, some: Sequence[int], of: Sequence[int], most: int
    ) -> Sequence[int]:
        """Those of some sources that mostly hold the same files as others, as far as looked at."""
        rows = await on.fetch(self._sql("find_copied_sources"), tenant, list(some), list(of), most)
        return [row["id"] for row in rows]

    async def get(self, on: Connection, tenant: str, source: int) -> Source:
        row = await on.fetchrow(self._sql("get_source"), tenant, source)
        if row is None:
            raise NotFound("source", str(source))
        return Source(**row)

    async def keep(self, on: Connection, tenant: str, source: int) -> None:
        """Until the end of the transaction nobody else deletes it or adds to it; NotFound."""
        if await on.fetchrow(self._sql("lock_source"), tenant, source) is None:
            raise NotFound("source", str(source))

    async def list(
        self,
        on: Connection,
        tenant: str,
        base: int | None,
        after: int | None,
        limit: int,
        named: Sequence[str] | None = None,
    ) -> Sequence[Source]:
        """Newest first; `named`: those with one of these names or keys."""
        rows = await on.fetch(self._sql("list_sources"), tenant, base, after, limit, named)
        return [Source(**row) for row in rows]

    async def begin(
        self, on: Connection, tenant: str, source: int, batch: str, requested_by: str | None
    ) -> None:
        """Note the batch that brings documents into it, and who asked for that."""
        await on.execute(self._sql("begin_batch"), tenant, source, batch, requested_by)

    async def end(self, on: Connection, tenant: str, source: int, batch: str) -> None:
        """Note that all of a batch have ended, if there is none after it."""
        await on.execute(self._sql("end_source"), tenant, source, batch)
