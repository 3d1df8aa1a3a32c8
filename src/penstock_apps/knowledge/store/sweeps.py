"""What is left behind, over all tenants."""

from __future__ import annotations

from datetime import timedelta

from penstock_apps.knowledge.store.tables import Connection, TablePool


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
