"""Where chunks stand in documents."""

from __future__ import annotations

from msgspec import Struct

from penstock_apps.knowledge.store.tables import Connection, TablePool


class Passage(Struct, frozen=True):
    """A piece of a document, at its place."""

    position: int
    page: int | None
    id: int
    heading: str
    text: str
    tokens: int


class Passages:
    """The pieces of documents that are searched."""

    def __init__(self, tables: TablePool) -> None:
        self._sql = tables.statement

    async def list(
        self, on: Connection, tenant: str, document: int, after: int, limit: int
    ) -> list[Passage]:
        """Those of a document, in order, after a position."""
        rows = await on.fetch(self._sql("list_chunks"), tenant, document, after, limit)
        return [Passage(**row) for row in rows]
