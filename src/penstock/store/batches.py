"""Run the statements for batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from penstock.store.connection import Executor
from penstock.store.store import Store

Row: TypeAlias = dict[str, Any]


class CancelledPage(NamedTuple):
    """The result of cancelling one page of a batch's jobs; the next page starts after id `last`."""

    found: int
    cancelled: int
    last: int


class Folded(NamedTuple):
    """The result of one fold, which added `moved` deltas to the counts of their batches.

    `passed` is how many batches it left for later. The next fold starts after the batch `upto`.
    `is_idle` is True if no batch is unfinished.
    """

    moved: int
    passed: int
    upto: int
    is_idle: bool


class Batches:
    """Run statements for batches on the connection of the caller."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def open(
        self,
        on: Executor,
        tenant: str,
        name: str | None,
        callbacks: Mapping[str, Any],
        meta: str | None,
        *,
        by: str | None = None,
    ) -> int:
        """Create a batch and return its id.

        `callbacks` maps events (`success`, `end` and `failure`) to stored requests.
        """
        stored = msgspec.json.encode(callbacks).decode() if callbacks else None
        sql = self._store.statement("open_batch")
        return int(await on.fetchval(sql, tenant, name, stored, meta, by))

    async def fold(self, on: Executor, limit: int, after: int, pace: float) -> Folded:
        """Add the deltas of up to `limit` batches to the counts of these batches.

        Begin after the batch `after`, and wrap around. Leave out a batch that was folded less than
        `pace` seconds ago, unless it is closed and its last job has ended.
        """
        row = await on.fetchrow(self._store.call("fold"), limit, after, pace)
        assert row is not None
        return Folded(row["moved"], row["passed"], row["upto"], row["is_idle"])

    async def get(self, on: Executor, ids: Sequence[int]) -> list[Row]:
        """Return the batches with these ids, newest first, with counts from one snapshot.

        Ids of batches that do not exist are left out.
        """
        return [
            dict(row) for row in await on.fetch(self._store.statement("get_batches"), list(ids))
        ]

    async def is_finished(self, on: Executor, batch: int) -> bool | None:
        """Return whether a batch has finished, or None if it does not exist."""
        finished: bool | None = await on.fetchval(self._store.statement("is_batch_finished"), batch)
        return finished

    async def page(
        self,
        on: Executor,
        tenant: str | None,
        name: str | None,
        state: str | None,
        after: int | None,
        limit: int,
    ) -> list[Row]:
        """Return a page of batches, newest first."""
        rows = await on.fetch(
            self._store.statement("list_batches"), tenant, name, state, after, limit
        )
        return await self.get(on, [row["id"] for row in rows])

    async def close(
        self, on: Executor, batch: int, reason: str | None, *, noted: bool, by: str | None
    ) -> bool:
        """Close a batch, or cancel it if a `reason` is given. Return False if it does not exist."""
        sql = self._store.statement("close_batch")
        answer = await on.fetchval(sql, batch, reason, noted, by)
        return bool(answer == "closed")

    async def cancel(
        self, on: Executor, batch: int, after: int, limit: int, reason: str
    ) -> CancelledPage:
        """Cancel up to `limit` jobs of a batch, in the order of their ids."""
        row = await on.fetchrow(self._store.statement("cancel_batch"), batch, after, limit, reason)
        assert row is not None
        return CancelledPage(row["found"], row["cancelled"], row["last"] or after)
