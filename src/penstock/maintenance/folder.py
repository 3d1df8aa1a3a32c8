"""Keeps the counts of batches, finishes them and lets their callbacks be enqueued."""

from __future__ import annotations

from collections.abc import Callable

from penstock.lifecycle import Budget, Health, Service
from penstock.store import Pool, Store

LIMIT = 100
SHORTEST = 0.1
# What other workers or somebody's SQL settled is found by the leader.
LOOK = 1.0
NOBODY = 3600.0


class Folder(Service):
    """Folds after this worker has settled a job of a batch, and now and then if it leads.

    Any worker may: two at once take turns at a batch. At most ten times a second, so that however
    many jobs end, a batch's row changes seldom.
    """

    name = "fold"

    def __init__(self, pool: Pool, store: Store, health: Health, leads: Callable[[], bool]) -> None:
        super().__init__(health)
        self._pool = pool
        self._store = store
        self._leads = leads
        self._budget = Budget(SHORTEST)
        self._is_wanted = False

    def settled(self) -> None:
        """A job of a batch has ended here."""
        if not self._is_wanted:
            self._is_wanted = True
            self.wake()

    async def tick(self) -> float:
        if not (self._is_wanted or self._leads()):
            return NOBODY
        self._is_wanted = False
        moved = await self.fold()
        if moved or self._is_wanted:
            self._is_wanted = True
            return self._budget.rest
        return LOOK

    async def fold(self) -> int:
        """Fold what there is now: how many deltas."""
        with self._budget:
            return await self._store.fold(self._pool, LIMIT)
