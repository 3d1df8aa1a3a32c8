"""Count documents by state, and read sources and documents for live updates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal

from msgspec import Struct

from penstock_apps.knowledge.store.documents import Document, document_from
from penstock_apps.knowledge.store.tables import Connection, TablePool

CHANGES_PER_FOLD = 20_000

OverallState = Literal["processing", "completed", "partial", "skipped", "failed", "cancelled"]


class Counts(Struct, frozen=True):
    """The number of documents in each state, and in total."""

    total: int = 0
    pending: int = 0
    processing: int = 0
    completed: int = 0
    skipped: int = 0
    failed: int = 0
    cancelled: int = 0

    @property
    def state(self) -> OverallState:
        """The state of all documents together. Skipped ones are ignored unless all are skipped."""
        if self.pending or self.processing:
            return "processing"
        if self.completed:
            return "partial" if self.failed or self.cancelled else "completed"
        if self.failed:
            return "failed"
        if self.cancelled:
            return "cancelled"
        return "skipped" if self.skipped else "completed"


class BaseContents(Struct, frozen=True):
    """The number of documents of a base in each state, and the number of its chunks."""

    counts: Counts = Counts()
    chunks: int = 0


class Counters:
    """Counts documents. A count costs the same for ten documents and for ten million."""

    def __init__(self, tables: TablePool) -> None:
        self._sql = tables.statement
        self._call = tables.call

    async def count(
        self, on: Connection, tenant: str, *, source: int | None = None, base: int | None = None
    ) -> Counts:
        """Count the documents of a source, of a base, or of the whole tenant."""
        return _counts(await on.fetch(self._sql("count_documents"), tenant, source, base))

    async def count_recent(
        self,
        on: Connection,
        tenant: str,
        since: timedelta,
        *,
        source: int | None = None,
        base: int | None = None,
    ) -> Counts:
        """Count the documents that were added within the time `since` before now."""
        return _counts(
            await on.fetch(self._sql("count_recent_documents"), tenant, base, since, source)
        )

    async def count_skipped(self, on: Connection, tenant: str, batch: str) -> int:
        """Count the documents of a batch that were skipped."""
        number: int = await on.fetchval(self._sql("count_skipped_documents"), tenant, batch)
        return number

    async def count_by_base(self, on: Connection, tenant: str) -> dict[int, BaseContents]:
        """Count the contents of each base that is not empty. This reads every document."""
        rows = await on.fetch(self._sql("count_bases"), tenant)
        by_base = groupby(sorted(rows, key=itemgetter("base")), itemgetter("base"))
        rows_by_base = {base: list(group) for base, group in by_base}
        return {
            base: BaseContents(_counts(group), sum(row["chunks"] for row in group))
            for base, group in rows_by_base.items()
        }

    async def fold(self, on: Connection) -> int:
        """Add the recorded changes to the counters, and return how many changes were added."""
        folded: int = await on.fetchval(self._call("fold_tallies"), CHANGES_PER_FOLD)
        return folded


def _counts(rows: Iterable[Any]) -> Counts:
    numbers = {row["state"]: int(row["number"]) for row in rows}
    return Counts(total=sum(numbers.values()), **numbers)


class SourceSnapshot(Struct, frozen=True):
    """A source with the states of its documents, as live updates show it."""

    id: int
    tenant: str
    name: str
    batch: str | None
    requested_by: str | None
    ended_at: datetime | None
    counts: Counts


class CountSnapshots:
    """Reads sources and documents for live updates: those of a tenant, or of all if it is None."""

    def __init__(self, tables: TablePool) -> None:
        self._sql = tables.statement

    async def sources(
        self, on: Connection, tenant: str | None, ids: Sequence[int]
    ) -> list[SourceSnapshot]:
        rows = await on.fetch(self._sql("watch_sources"), tenant, list(ids))
        names = Counts.__struct_fields__
        return [
            SourceSnapshot(
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
