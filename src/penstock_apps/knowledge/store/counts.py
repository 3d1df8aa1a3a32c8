"""How many documents are in which state, and how far sources and documents are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal

from msgspec import Struct

from penstock_apps.knowledge.store.documents import Document, document_from
from penstock_apps.knowledge.store.tables import Connection, TablePool

FOLDED_AT_ONCE = 20_000

Whole = Literal["processing", "completed", "partial", "skipped", "failed", "cancelled"]


class Counts(Struct, frozen=True):
    """Documents by state; they make the total."""

    total: int = 0
    pending: int = 0
    processing: int = 0
    completed: int = 0
    skipped: int = 0
    failed: int = 0
    cancelled: int = 0

    @property
    def state(self) -> Whole:
        """What has come of all of them together: of those that were skipped if there are others."""
        if self.pending or self.processing:
            return "processing"
        if self.completed:
            return "partial" if self.failed or self.cancelled else "completed"
        if self.failed:
            return "failed"
        if self.cancelled:
            return "cancelled"
        return "skipped" if self.skipped else "completed"


class Stock(Struct, frozen=True):
    """What a base has."""

    counts: Counts = Counts()
    chunks: int = 0


class Tallies:
    """Counts that cost the same for ten documents and for ten million."""

    def __init__(self, tables: TablePool) -> None:
        self._sql = tables.statement
        self._call = tables.call

    async def count(
        self, on: Connection, tenant: str, *, source: int | None = None, base: int | None = None
    ) -> Counts:
        """Of a source, of a base, or of all that a tenant has."""
        return _counts(await on.fetch(self._sql("count_documents"), tenant, source, base))

    async def recent(
        self,
        on: Connection,
        tenant: str,
        since: timedelta,
        *,
        source: int | None = None,
        base: int | None = None,
    ) -> Counts:
        """Of the documents that came since then."""
        return _counts(
            await on.fetch(self._sql("count_recent_documents"), tenant, base, since, source)
        )

    async def skipped(self, on: Connection, tenant: str, batch: str) -> int:
        """How many documents of a batch were skipped."""
        number: int = await on.fetchval(self._sql("count_skipped_documents"), tenant, batch)
        return number

    async def stocks(self, on: Connection, tenant: str) -> dict[int, Stock]:
        """What each base of a tenant has that has anything. It looks at every document."""
        rows = await on.fetch(self._sql("count_bases"), tenant)
        by_base = groupby(sorted(rows, key=itemgetter("base")), itemgetter("base"))
        found = {base: list(some) for base, some in by_base}
        return {
            base: Stock(_counts(some), sum(row["chunks"] for row in some))
            for base, some in found.items()
        }

    async def fold(self, on: Connection) -> int:
        """Fold what has changed into the tallies; how much was folded."""
        folded: int = await on.fetchval(self._call("fold_tallies"), FOLDED_AT_ONCE)
        return folded


def _counts(rows: Iterable[Any]) -> Counts:
    found = {row["state"]: int(row["number"]) for row in rows}
    return Counts(total=sum(found.values()), **found)


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
