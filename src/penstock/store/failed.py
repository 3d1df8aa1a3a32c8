"""The statements for dead letters: jobs that have failed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from penstock.job import Job
from penstock.store.connection import Executor
from penstock.store.rows import job_from
from penstock.store.store import Store

Row: TypeAlias = dict[str, Any]
_LAST_ID = 2**63 - 1


class FailedCursor(NamedTuple):
    """Where a page ends: when its last job failed, and that job's id."""

    failed_at: datetime
    id: int


class FailedJobs:
    """Statements for dead letters, on whatever connection the caller has.

    `which` are a filter's values in the order of the statements' places, from the queue to `until`.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def page(
        self, on: Executor, which: Sequence[Any], after: FailedCursor | None, limit: int
    ) -> list[Job]:
        """Those that failed last, newest first."""
        behind = after or (None, _LAST_ID)
        return [
            job_from(row) for row in await self._rows(on, "list_failed", *which, *behind, limit)
        ]

    async def find(
        self, on: Executor, which: Sequence[Any], after: FailedCursor | None, limit: int
    ) -> tuple[list[FailedCursor], datetime | None]:
        """Those that failed first, oldest first, and until when this look is about."""
        behind = after or (None, 0)
        rows = await self._rows(on, "find_failed", *which, *behind, limit)
        found = [FailedCursor(row["finished_at"], row["id"]) for row in rows]
        return found, rows[0]["began"] if rows else None

    async def sum(self, on: Executor, which: Sequence[Any], among: int) -> list[Row]:
        return await self._rows(on, "summarize_failed", *which, among)

    async def redrive(
        self,
        on: Executor,
        ids: Sequence[int],
        spacing: float | None,
        start: datetime | None,
        *,
        by: str | None,
        which: str,
    ) -> list[Row]:
        """What became of each, and when it is due; `which`, as JSON, goes to the audit."""
        return await self._rows(on, "redrive", list(ids), spacing, start, by, which)

    async def purge(
        self, on: Executor, ids: Sequence[int], *, by: str | None, which: str
    ) -> list[Row]:
        return await self._rows(on, "purge", list(ids), by, which)

    async def _rows(self, on: Executor, name: str, *parameters: Any) -> list[Row]:
        return [dict(row) for row in await on.fetch(self._store.statement(name), *parameters)]
