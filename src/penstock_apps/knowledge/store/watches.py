"""Sources and documents as they are now, many in one question: for those who watch."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from penstock_apps.knowledge.store.documents import Document, document_from
from penstock_apps.knowledge.store.tables import Connection, TablePool
from penstock_apps.knowledge.store.tallies import Counts


class SourceNow(Struct, frozen=True):
    """How far a source is."""

    id: int
    tenant: str
    name: str
    batch: str | None
    requested_by: str | None
    ended_at: datetime | None
    counts: Counts


class Watches:
    """What is watched, as a tenant or as none, who sees all."""

    def __init__(self, tables: TablePool) -> None:
        self._sql = tables.statement

    async def sources(
        self, on: Connection, tenant: str | None, ids: Sequence[int]
    ) -> list[SourceNow]:
        rows = await on.fetch(self._sql("watch_sources"), tenant, list(ids))
        names = Counts.__struct_fields__
        return [
            SourceNow(
                row["id"],
                row["tenant"],
                row["name"],
                row["batch"],
                row["requested_by"],
                row["ended_at"],
                Counts(**{name: row[name] for name in names}),
            )
            for row in rows
        ]

    async def documents(
        self, on: Connection, tenant: str | None, ids: Sequence[int]
    ) -> list[Document]:
        rows = await on.fetch(self._sql("watch_documents"), tenant, list(ids))
        return [document_from(row) for row in rows]
