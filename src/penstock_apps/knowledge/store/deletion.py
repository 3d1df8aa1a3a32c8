"""What is deleted: marked at once, removed piece by piece; and what was left behind."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Literal, TypeAlias

from penstock_apps.knowledge.errors import NotFound
from penstock_apps.knowledge.store.tables import Connection, TablePool

Deleted: TypeAlias = Literal["document", "source", "base", "tenant"]


class Removals:
    """Marks and removes documents, sources, bases, tenants."""

    def __init__(self, tables: TablePool) -> None:
        self._sql = tables.statement
        self._call = tables.call

    # Marked: from here on nobody sees it.

    async def mark_documents(
        self,
        on: Connection,
        tenant: str,
        documents: Sequence[int],
        *,
        attached_to: int | None = None,
    ) -> dict[int, str | None]:
        """Mark documents and their attachments as deleted; those that existed, with their jobs.

        With `attached_to`, only those that are still attached to that mail.
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

    async def mark_sources(self, on: Connection, tenant: str, base: int, most: int) -> int:
        """Sources of a base that is deleted; how many."""
        number: int = await on.fetchval(self._sql("delete_sources"), tenant, base, most)
        return number

    # Removed: nothing is left of it.

    async def doomed(
        self,
        on: Connection,
        tenant: str,
        most: int,
        *,
        base: int | None = None,
        source: int | None = None,
        document: int | None = None,
    ) -> dict[int, str | None]:
        """Some documents of what is deleted, with their jobs."""
        rows = await on.fetch(
            self._sql("list_deleted_documents"), tenant, base, source, document, most
        )
        return {row["id"]: row["job"] for row in rows}

    async def documents(self, on: Connection, tenant: str, documents: Sequence[int]) -> list[bytes]:
        """Remove documents; the digests of their files."""
        rows = await on.fetch(self._sql("remove_documents"), tenant, list(documents))
        return [row["digest"] for row in rows]

    async def some_sources(self, on: Connection, tenant: str, base: int, most: int) -> list[int]:
        rows = await on.fetch(self._sql("list_deleted_sources"), tenant, base, most)
        return [row["id"] for row in rows]

    async def sources(self, on: Connection, tenant: str, sources: Sequence[int]) -> None:
        """Remove sources that are deleted and empty, with what was counted of them."""
        for statement in ("remove_tally_changes", "remove_tallies", "remove_sources"):
            await on.execute(self._sql(statement), tenant, list(sources))

    async def editions(self, on: Connection, tenant: str, base: int) -> list[int]:
        """The editions of a base that is deleted."""
        rows = await on.fetch(self._sql("list_deleted_editions"), tenant, base)
        return [row["id"] for row in rows]

    async def chunks(self, on: Connection, tenant: str, edition: int, most: int) -> int:
        """Remove some chunks of an edition; how many."""
        number: int = await on.fetchval(self._call("remove_chunks"), tenant, edition, most)
        return number

    async def edition(self, on: Connection, tenant: str, edition: int) -> None:
        await on.execute(self._sql("remove_edition"), tenant, edition)

    async def bases(self, on: Connection, tenant: str) -> list[int]:
        """The bases of a tenant that are deleted."""
        rows = await on.fetch(self._sql("list_deleted_bases"), tenant)
        return [row["id"] for row in rows]

    async def base(self, on: Connection, tenant: str, base: int) -> None:
        await on.execute(self._sql("remove_base"), tenant, base)

    async def vectors(self, on: Connection, tenant: str, most: int) -> int:
        """Remove some vectors of a tenant; how many."""
        number: int = await on.fetchval(self._sql("remove_vectors"), tenant, most)
        return number

    async def tenant(self, on: Connection, tenant: str) -> bool:
        """Forget a tenant; False if it has bases."""
        return await on.fetchval(self._sql("remove_tenant"), tenant) is not None

    async def is_unfinished(self, on: Connection, tenant: str) -> bool:
        """Whether anything that a tenant has deleted is still there."""
        left: bool = await on.fetchval(self._sql("has_unremoved"), tenant)
        return left

    async def unfinished(self, on: Connection, most: int) -> list[tuple[str, Deleted, int | None]]:
        """What was deleted some minutes ago and is still there: its tenant, what it is, its id."""
        rows = await on.fetch(self._sql("list_unremoved"), most)
        return [(row["tenant"], row["what"], row["id"]) for row in rows]


class Sweeps:
    """Looks for it, and removes what nobody needs."""

    def __init__(self, tables: TablePool) -> None:
        self._sql = tables.statement
        self._call = tables.call

    async def stranded(self, on: Connection, most: int) -> list[tuple[str, str, int, int]]:
        """Some documents that have not ended: tenant, job, id and version."""
        rows = await on.fetch(self._sql("list_stranded_documents"), most)
        return [(row["tenant"], row["job"], row["id"], row["version"]) for row in rows]

    async def idle_batches(self, on: Connection, after: timedelta, most: int) -> list[str]:
        """Batches of sources that have not ended, and to which nothing was added for a time."""
        rows = await on.fetch(self._sql("list_idle_batches"), after, most)
        return [row["batch"] for row in rows]

    async def drafts(self, on: Connection, most: int) -> int:
        """Remove drafts of what is not wanted any more; how many rows."""
        number: int = await on.fetchval(self._sql("sweep_drafts"), most)
        return number

    async def vectors(self, on: Connection, most: int) -> int:
        """Remove vectors that nobody has published for a day; how many."""
        number: int = await on.fetchval(self._sql("sweep_vectors"), most)
        return number

    async def chunks(self, on: Connection, most: int) -> int:
        """Look at some chunks, and remove those that stand nowhere; how many."""
        number: int = await on.fetchval(self._call("sweep_chunks"), most)
        return number

    async def database(self, on: Connection) -> str:
        """Which database this is, and which of its schemas."""
        name: str = await on.fetchval(self._sql("name_database"))
        return name
