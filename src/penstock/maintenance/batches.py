"""Keeps the counts of batches, finishes them and lets their callbacks be enqueued."""

from __future__ import annotations

from collections.abc import Callable

from penstock.lifecycle import Health, ScanBudget, Service
from penstock.store import Pool, Store
from penstock.store.batches import Batches, Folded

LIMIT = 100
SHORTEST = 0.1
# What other workers or somebody's SQL settled is found by the leader; it hardly looks while there
# is no batch.
LOOK = 1.0
IDLE = 5.0
NOBODY = 3600.0


class Folder(Service):
    """Folds after this worker has settled a job of a batch, and now and then if it leads.

    Any worker may: two at once take turns at a batch. Each at most ten times a second, and all
    together each batch as often, so that however many jobs end, a batch's row changes seldom.
    """

    name = "fold"

    def __init__(self, pool: Pool, store: Store, health: Health, leads: Callable[[], bool]) -> None:
        super().__init__(health)
        self._pool = pool
        self._batches = Batches(store)
        self._leads = leads
        self._budget = ScanBudget(SHORTEST)
        self._is_wanted = False
        self._after = 0
        self._patience = SHORTEST

    def settled(self) -> None:
        """A job of a batch has ended here."""
        if not self._is_wanted:
            self._is_wanted = True
            self.wake()

    async def tick(self) -> float:
        if not (self._is_wanted or self._leads()):
            return NOBODY
        self._is_wanted = False
        found = await self.fold(pace=SHORTEST)
        if found.moved or self._is_wanted:
            self._is_wanted = True
            self._patience = SHORTEST
            return self._budget.pause
        if found.passed:
            # Another has just folded it, and may not have seen what ended here; or its row is held.
            self._is_wanted = True
            self._patience = min(2 * self._patience, LOOK)
            return max(self._patience, self._budget.pause)
        self._patience = SHORTEST
        return IDLE if found.is_idle else LOOK

    async def fold(self, pace: float = 0) -> Folded:
        """Fold what there is now, behind what the last one came to, and around."""
        with self._budget:
            found = await self._batches.fold(self._pool, LIMIT, self._after, pace)
        self._after = found.upto
        return found
