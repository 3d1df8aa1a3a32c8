"""Run the statements for failed jobs, also called dead letters."""

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
    """The position of the last job on a page: when the job failed, and its id."""

    failed_at: datetime
    id: int


class FailedJobs:
    """Run statements for failed jobs on the connection of the caller.

    `filters` holds the values of a filter in the order of the statements' parameters, from the
    queue to `until`.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def page(
        self, on: Executor, filters: Sequence[Any], after: FailedCursor | None, limit: int
    ) -> list[Job]:
        """Return a page of failed jobs, latest failure first."""
        start = after or (None, _LAST_ID)
        return [
            job_from(row) for row in await self._rows(on, "list_failed", *filters, *start, limit)
        ]

    async def find(
        self, on: Executor, filters: Sequence[Any], after: FailedCursor | None, limit: int
    ) -> tuple[list[FailedCursor], datetime | None]:
        """Return the cursors of a page of failed jobs, earliest failure first, and a time.

        The time is when the query began, or None if the page is empty. If you pass it as the filter
        `until` for the next pages, they leave out jobs that have failed since.
        """
        start = after or (None, 0)
        rows = await self._rows(on, "find_failed", *filters, *start, limit)
        cursors = [FailedCursor(row["finished_at"], row["id"]) for row in rows]
        return cursors, rows[0]["began"] if rows else None

    async def sum(self, on: Executor, filters: Sequence[Any], among: int) -> list[Row]:
        """Count the latest `among` failed jobs by task, reason and type of error."""
        return await self._rows(on, "summarize_failed", *filters, among)

    async def redrive(
        self,
        on: Executor,
        ids: Sequence[int],
        spacing: float | None,
        start: datetime | None,
        *,
        by: str | None,
        filters: str,
    ) -> list[Row]:
        """Run failed jobs again. Return a row for each, with its new state and when it is due.

        `due` is None for a job that was left as it is, and `answer` says why. `filters` is JSON for
        the audit.
        """
        return await self._rows(on, "redrive", list(ids), spacing, start, by, filters)

    async def purge(
        self, on: Executor, ids: Sequence[int], *, by: str | None, filters: str
    ) -> list[Row]:
        """Delete failed jobs. Return a row for each, with its `answer`.

        The answer is `deleted`, or says why the job was not deleted. `filters` is JSON for the
        audit.
        """
        return await self._rows(on, "purge", list(ids), by, filters)

    async def _rows(self, on: Executor, name: str, *parameters: Any) -> list[Row]:
        return [dict(row) for row in await on.fetch(self._store.statement(name), *parameters)]
