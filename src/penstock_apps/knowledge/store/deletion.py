"""Mark rows as deleted, remove them some at a time, and find what crashes left behind."""

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
        """Mark documents and their attachments as deleted; return the job of each by its id.

        If `attached_to` is given, mark only documents that are still attached to that mail.
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
        """Return some documents of a deleted base or source, or a deleted one, with their jobs."""
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
        """Remove the row and the usage of a deleted tenant; return False if it still has bases."""
        return await on.fetchval(self._sql("remove_tenant"), tenant) is not None

    async def has_unfinished(self, on: Connection, tenant: str) -> bool:
        """Return whether any rows that a tenant has deleted still exist."""
        left: bool = await on.fetchval(self._sql("has_unremoved"), tenant)
        return left

    async def list_unfinished(
        self, on: Connection, limit: int
    ) -> list[tuple[str, Deleted, int | None]]:
        """List what was marked as deleted ten minutes ago or earlier, as (tenant, kind, id)."""
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
        """List some documents without an outcome whose jobs may have ended.

        Each is given as (tenant, job, document, version).
        """
        rows = await on.fetch(self._sql("list_stranded_documents"), limit)
        return [(row["tenant"], row["job"], row["id"], row["version"]) for row in rows]

    async def list_idle_batches(self, on: Connection, after: timedelta, limit: int) -> list[str]:
        """List some batches that an interrupted upload or build may have left open.

        These are unfinished batches of sources in which no document has changed for the time
        `after`, and the batches of editions that are being built.
        """
        rows = await on.fetch(self._sql("list_idle_batches"), after, limit)
        return [row["batch"] for row in rows]

    async def remove_drafts(self, on: Connection, limit: int) -> int:
        """Remove some drafts that are not needed any more, and return the number of rows."""
        number: int = await on.fetchval(self._sql("sweep_drafts"), limit)
        return number

    async def remove_vectors(self, on: Connection, limit: int) -> int:
        """Remove vectors that were not published within a day, and return how many."""
        number: int = await on.fetchval(self._sql("sweep_vectors"), limit)
        return number

    async def remove_chunks(self, on: Connection, limit: int) -> int:
        """Examine some chunks, and remove those that are in no document; return how many."""
        number: int = await on.fetchval(self._call("sweep_chunks"), limit)
        return number

    async def name_database(self, on: Connection) -> str:
        """Return a name for this database and schema, which no other database shares."""
        name: str = await on.fetchval(self._sql("name_database"))
        return name
