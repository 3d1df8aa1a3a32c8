"""Sources: the folders, uploads, texts and URLs that documents come from."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct

from penstock_apps.knowledge.errors import NotFound
from penstock_apps.knowledge.store.tables import Connection, TablePool

Kind = Literal["files", "url", "text", "site"]


class NewSource(Struct, frozen=True):
    """A source to make. With a key, a later request finds the same source."""

    kind: Kind
    name: str
    key: str | None = None


class Source(Struct, frozen=True):
    """The row of a source."""

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
    """Reads and writes the sources of tenants."""

    def __init__(self, tables: TablePool) -> None:
        self._sql = tables.statement

    async def make(self, on: Connection, tenant: str, base: int, source: NewSource) -> int:
        """Make a source, or find the one with the same key, and return its id.

        Raise NotFound if the base does not exist.
        """
        if await on.fetchrow(self._sql("lock_base"), tenant, base) is None:
            raise NotFound("knowledge base", str(base))
        made: int = await on.fetchval(
            self._sql("make_source"), tenant, base, source.kind, source.name, source.key
        )
        return made

    async def find(
        self, on: Connection, tenant: str, base: int, kind: Kind, key: str
    ) -> int | None:
        """Return the id of the source with a key, or None."""
        id: int | None = await on.fetchval(self._sql("find_source"), tenant, base, kind, key)
        return id

    async def find_copies(
        self,
        on: Connection,
        tenant: str,
        sources: Sequence[int],
        originals: Sequence[int],
        limit: int,
    ) -> Sequence[int]:
        """Return those `sources` that have at least half of their files in common with `originals`.

        At most `limit` documents of each source are compared.
        """
        rows = await on.fetch(
            self._sql("find_copied_sources"), tenant, list(sources), list(originals), limit
        )
        return [row["id"] for row in rows]

    async def get(self, on: Connection, tenant: str, source: int) -> Source:
        row = await on.fetchrow(self._sql("get_source"), tenant, source)
        if row is None:
            raise NotFound("source", str(source))
        return Source(**row)

    async def lock(self, on: Connection, tenant: str, source: int) -> None:
        """Keep others from deleting a source or adding to it until the transaction ends.

        Raise NotFound if the source was deleted.
        """
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
        """List sources, newest first. `named` selects those with one of these names or keys."""
        rows = await on.fetch(self._sql("list_sources"), tenant, base, after, limit, named)
        return [Source(**row) for row in rows]

    async def begin_batch(
        self, on: Connection, tenant: str, source: int, batch: str, requested_by: str | None
    ) -> None:
        """Record the batch that adds documents to a source, and who requested it."""
        await on.execute(self._sql("begin_batch"), tenant, source, batch, requested_by)

    async def end_batch(self, on: Connection, tenant: str, source: int, batch: str) -> None:
        """Record that all documents of a batch have ended, unless a newer batch has begun."""
        await on.execute(self._sql("end_source"), tenant, source, batch)
