"""Documents that have not gone in: those that failed, and those that are under way."""

from __future__ import annotations

from penstock_apps.knowledge.store.documents import Arrival
from penstock_apps.knowledge.store.shelves import Connection, Shelves


class Unfinished:
    """Of one source, page by page in the order of their paths."""

    def __init__(self, shelves: Shelves) -> None:
        self._sql = shelves.statement

    async def failed(
        self, on: Connection, tenant: str, source: int, after: str, limit: int
    ) -> list[Arrival]:
        """Those that failed, as they came in."""
        rows = await on.fetch(self._sql("list_failed"), tenant, source, after, limit)
        return [Arrival(**row) for row in rows]

    async def under_way(
        self, on: Connection, tenant: str, source: int, after: str, limit: int
    ) -> dict[str, str]:
        """The jobs of those that have not ended, by path."""
        rows = await on.fetch(self._sql("list_under_way"), tenant, source, after, limit)
        return {path: job for path, job in rows}

    async def cancel(self, on: Connection, tenant: str, source: int, jobs: dict[str, str]) -> None:
        """The jobs of these paths were cancelled before they began."""
        sql = self._sql("cancel_documents")
        await on.execute(sql, tenant, source, list(jobs), list(jobs.values()))
