"""Mark what is deleted at once and remove it piece by piece; find what was left behind."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Literal, TypeAlias

from penstock_apps.knowledge.errors import NotFound
from penstock_apps.knowledge.store.tables import Connection, TablePool

Deleted: TypeAlias = Literal["document", "source", "base", "tenant"]


class Removals:
    """Marks documents, sources, bases and tenants as deleted, and removes their rows."""

    def __init__(self, tables: TablePool) -> None:
        self._sql = tables.statement
        self._call = tables.call

    # Marking: from here on nobody sees the row.

    async def mark_documents(
        self,
        on: Connection,
        tenant: str,
        documents: Sequence[int],
        *,
        attached_to: int | None = None,
    ) -> dict[int, str | None]:
        """Mark documents and their attachments as deleted; return those found, with their jobs.

        With `attached_to`, mark only those that are still attached to that mail.
        """
        await on.execute(self._sql("lock_documents"), tenant, list(documents))
        sql = self._sql("delete_documents")
        rows = await on.fetch(sql, tenant, list(documents), attached_to)
        return {row["id"]: row["job"] for row in rows}

    async def mark_source(self, on: Connection, tenant: str, source: int) -> None:
        if await on.fetchrow(self._sql("delete_source"), tenant, source) is None:
            raise NotFound("source", str(source))

    async def mark_base(self, on: Connection, tenant: str, base: int) -> None:
        if await on.fetchrow(self._sql("delete_base"), tenant, base) is None:
            raise NotFound("knowledge base", str(base))

    async def mark_tenant(self, on: Connection, tenant: str) -> None:
        await on.execute(self._sql("delete_tenant"), tenant)

    async def mark_sources(self, on: Connection, tenant: str, base: int, limit: int) -> int:
        """Mark some sources of a deleted base as deleted, and return how many."""
        number: int = await on.fetchval(self._sql("delete_sources"), tenant, base, limit)
        return number

    # Removing: nothing is left of the row.

    async def list_deleted_documents(
        self,
        on: Connection,
        tenant: str,
        limit: int,
        *,
        base: int | None = None,
        source: int | None = None,
        document: int | None = None,
    ) -> dict[int, str | None]:
        """List some documents that are deleted, or whose source or base is, with their jobs."""
        rows = await on.fetch(
            self._sql("list_deleted_documents"), tenant, base, source, document, limit
        )
        return {row["id"]: row["job"] for row in rows}

    async def remove_documents(
        self, on: Connection, tenant: str, documents: Sequence[int]
    ) -> list[bytes]:
        """Remove documents, and return the digests of their files."""
        rows = await on.fetch(self._sql("remove_documents"), tenant, list(documents))
        return [row["digest"] for row in rows]

    async def list_deleted_sources(
        self, on: Connection, tenant: str, base: int, limit: int
    ) -> list[int]:
        rows = await on.fetch(self._sql("list_deleted_sources"), tenant, base, limit)
        return [row["id"] for row in rows]

    async def remove_sources(self, on: Connection, tenant: str, sources: Sequence[int]) -> None:
        """Remove sources that are deleted and empty, with their counters."""
        for statement in ("remove_tally_changes", "remove_tallies", "remove_sources"):
            await on.execute(self._sql(statement), tenant, list(sources))

    async def list_deleted_editions(self, on: Connection, tenant: str, base: int) -> list[int]:
        """List the editions of a deleted base."""
        rows = await on.fetch(self._sql("list_deleted_editions"), tenant, base)
        return [row["id"] for row in rows]

    async def remove_chunks(self, on: Connection, tenant: str, edition: int, limit: int) -> int:
        """Remove some chunks of an edition, and return how many."""
        number: int = await on.fetchval(self._call("remove_chunks"), tenant, edition, limit)
        return number

    async def remove_edition(self, on: Connection, tenant: str, edition: int) -> None:
        await on.execute(self._sql("remove_edition"), tenant, edition)

    async def list_deleted_bases(self, on: Connection, tenant: str) -> list[int]:
        """List the deleted bases of a tenant."""
        rows = await on.fetch(self._sql("list_deleted_bases"), tenant)
        return [row["id"] for row in rows]

    async def remove_base(self, on: Connection, tenant: str, base: int) -> None:
        await on.execute(self._sql("remove_base"), tenant, base)

    async def remove_vectors(self, on: Connection, tenant: str, limit: int) -> int:
        """Remove some vectors of a tenant, and return how many."""
        number: int = await on.fetchval(self._sql("remove_vectors"), tenant, limit)
        return number

    async def remove_tenant(self, on: Connection, tenant: str) -> bool:
        """Remove the row of a tenant; return False if it still has bases."""
        return await on.fetchval(self._sql("remove_tenant"), tenant) is not None

    async def has_unfinished(self, on: Connection, tenant: str) -> bool:
        """Return whether any rows that a tenant has deleted still exist."""
        left: bool = await on.fetchval(self._sql("has_unremoved"), tenant)
        return left

    async def list_unfinished(
        self, on: Connection, limit: int
    ) -> list[tuple[str, Deleted, int | None]]:
        """List what was deleted minutes ago and still exists, as tenant, kind and id."""
        rows = await on.fetch(self._sql("list_unremoved"), limit)
        return [(row["tenant"], row["what"], row["id"]) for row in rows]


class Sweeps:
    """Finds unfinished work of all tenants, and removes rows that nothing needs."""

    def __init__(self, tables: TablePool) -> None:
        self._sql = tables.statement
        self._call = tables.call

    async def list_stranded_documents(
        self, on: Connection, limit: int
    ) -> list[tuple[str, str, int, int]]:
        """List some documents that have no outcome yet, as tenant, job, id and version."""
        rows = await on.fetch(self._sql("list_stranded_documents"), limit)
        return [(row["tenant"], row["job"], row["id"], row["version"]) for row in rows]

    async def list_idle_batches(self, on: Connection, after: timedelta, limit: int) -> list[str]:
        """List unfinished batches of sources to which nothing was added for `after`."""
        rows = await on.fetch(self._sql("list_idle_batches"), after, limit)
        return [row["batch"] for row in rows]

    async def remove_drafts(self, on: Connection, limit: int) -> int:
        """Remove drafts of superseded versions, and return how many rows."""
        number: int = await on.fetchval(self._sql("sweep_drafts"), limit)
        return number

    async def remove_vectors(self, on: Connection, limit: int) -> int:
        """Remove vectors that were not published within a day, and return how many."""
        number: int = await on.fetchval(self._sql("sweep_vectors"), limit)
        return number

    async def remove_chunks(self, on: Connection, limit: int) -> int:
        """Examine some chunks, remove those that are in no document, and return how many."""
        number: int = await on.fetchval(self._call("sweep_chunks"), limit)
        return number

    async def name_database(self, on: Connection) -> str:
        """Return a name for this database and schema, which no other database shares."""
        name: str = await on.fetchval(self._sql("name_database"))
        return name
