"""The statements for batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from penstock.store.connection import Executor
from penstock.store.store import Store

Row: TypeAlias = dict[str, Any]


class CancelledPage(NamedTuple):
    """What came of a change to some jobs of a batch; `last` is the id behind which to go on."""

    found: int
    cancelled: int
    last: int


class Folded(NamedTuple):
    """What came of a fold: deltas moved, batches left for later, where to go on.

    Idle: no batch is unfinished.
    """

    moved: int
    passed: int
    upto: int
    is_idle: bool


class Batches:
    """Statements for batches, on whatever connection the caller has."""

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
        """A new batch's id; callbacks are stored forms of requests by their moments."""
        stored = msgspec.json.encode(callbacks).decode() if callbacks else None
        sql = self._store.statement("open_batch")
        return int(await on.fetchval(sql, tenant, name, stored, meta, by))

    async def fold(self, on: Executor, limit: int, after: int, pace: float) -> Folded:
        """Move deltas into the counts of some batches, of each once in a pace of seconds."""
        row = await on.fetchrow(self._store.call("fold"), limit, after, pace)
        assert row is not None
        return Folded(row["moved"], row["passed"], row["upto"], row["is_idle"])

    async def get(self, on: Executor, ids: Sequence[int]) -> list[Row]:
        """Those that are there, newest first, with their counts as of one moment."""
        return [
            dict(row) for row in await on.fetch(self._store.statement("get_batches"), list(ids))
        ]

    async def is_finished(self, on: Executor, batch: int) -> bool | None:
        """None if there is no such batch."""
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
        """Some batches, newest first."""
        found = await on.fetch(
            self._store.statement("list_batches"), tenant, name, state, after, limit
        )
        return await self.get(on, [row["id"] for row in found])

    async def close(
        self, on: Executor, batch: int, reason: str | None, *, noted: bool, by: str | None
    ) -> bool:
        """Whether it was there to be closed; with a `reason` as one that is given up."""
        sql = self._store.statement("close_batch")
        answer = await on.fetchval(sql, batch, reason, noted, by)
        return bool(answer == "closed")

    async def cancel(
        self, on: Executor, batch: int, after: int, limit: int, reason: str
    ) -> CancelledPage:
        """End some jobs of it, in the order of their ids."""
        row = await on.fetchrow(self._store.statement("cancel_batch"), batch, after, limit, reason)
        assert row is not None
        return CancelledPage(row["found"], row["cancelled"], row["last"] or after)
