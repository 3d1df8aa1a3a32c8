"""The ids of jobs by filter, page by page, for whoever changes all of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, NamedTuple

from penstock.store.connection import Executor
from penstock.store.store import Store


class Match(NamedTuple):
    """A job that a filter finds; a page that ends with it ends here.

    `day` and `at` are None for a job that lives. What ended since `until` is in no page.
    """

    id: int
    day: date | None
    at: datetime | None
    until: datetime


async def matches(
    store: Store, on: Executor, *, which: Sequence[Any], after: Match | None, limit: int
) -> list[Match]:
    """The next of those that agree with a filter, behind the last of the page before.

    `which` are states, queue, task, tenant, subject, tag, batch and workflow, and between which ids
    the jobs are, without these.
    """
    behind = (None,) * 4 if after is None else (after.until, after.day, after.at, after.id)
    rows = await on.fetch(store.statement("match_jobs"), *which, *behind, limit)
    return [Match(**row) for row in rows]


async def newest_id(store: Store, on: Executor) -> int:
    """The highest id that a job has got so far; 0 if none has."""
    newest: int | None = await on.fetchval(store.statement("get_newest_id"), store.schema)
    return newest or 0
