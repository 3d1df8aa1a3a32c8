"""Find the ids of jobs by filter, page by page, for bulk changes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, NamedTuple

from penstock.store.connection import Executor
from penstock.store.store import Store


class Match(NamedTuple):
    """A job that a filter matches. The last one of a page is the cursor for the next page.

    `day` and `at` say when the job ended. They are None for a live job. Jobs that ended after
    `until` are left out.
    """

    id: int
    day: date | None
    at: datetime | None
    until: datetime


async def matches(
    store: Store, on: Executor, *, filters: Sequence[Any], after: Match | None, limit: int
) -> list[Match]:
    """Return the next page of jobs that match a filter, or the first page if `after` is None.

    `filters` holds states, queue, task, tenant, subject, tag, batch and workflow, and then two ids.
    Only jobs whose ids are above the first and below the second match.
    """
    cursor = (None,) * 4 if after is None else (after.until, after.day, after.at, after.id)
    rows = await on.fetch(store.statement("match_jobs"), *filters, *cursor, limit)
    return [Match(**row) for row in rows]


async def newest_id(store: Store, on: Executor) -> int:
    """Return the highest id of any job so far, or 0 if there has been none."""
    newest: int | None = await on.fetchval(store.statement("get_newest_id"), store.schema)
    return newest or 0
