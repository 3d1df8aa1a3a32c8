"""Counts the settled jobs of batches, finishes batches, and lets their callbacks be enqueued."""

from __future__ import annotations

from collections.abc import Callable

from penstock.lifecycle import DatabaseHealth, ScanBudget, Service
from penstock.store import Pool, Store
from penstock.store.batches import Batches, Folded

MAX_JOBS_PER_FOLD = 100
MIN_INTERVAL_S = 0.1
# The leader finds what other workers or somebody's SQL settled. It hardly looks while there is no
# batch.
CHECK_INTERVAL_S = 1.0
IDLE_INTERVAL_S = 5.0
IDLE_PAUSE_S = 3600.0


class BatchFold(Service):
    """Adds the counts of settled jobs to their batches, which is called folding.

    A worker folds after it has settled a job of a batch. A leader also folds at intervals. If two
    workers fold at once, they take turns at a batch. Each worker folds at most ten times a second,
    and all workers together fold a batch at most ten times a second. So a batch's row changes
    seldom, however many jobs end.
    """

    name = "fold"

    def __init__(
        self, pool: Pool, store: Store, health: DatabaseHealth, leads: Callable[[], bool]
    ) -> None:
        super().__init__(health)
        self._pool = pool
        self._batches = Batches(store)
        self._leads = leads
        self._budget = ScanBudget(MIN_INTERVAL_S)
        self._is_due = False
        self._last_batch = 0
        self._pause = MIN_INTERVAL_S

    def note_settled(self) -> None:
        """Note that this worker has settled a job of a batch."""
        if not self._is_due:
            self._is_due = True
            self.wake()

    async def tick(self) -> float:
        if not (self._is_due or self._leads()):
            return IDLE_PAUSE_S
        self._is_due = False
        folded = await self.fold(pace=MIN_INTERVAL_S)
        if folded.moved or self._is_due:
            self._is_due = True
            self._pause = MIN_INTERVAL_S
            return self._budget.pause
        if folded.passed:
            # Another worker has just folded it and may not have seen what ended here, or its row is
            # locked.
            self._is_due = True
            self._pause = min(2 * self._pause, CHECK_INTERVAL_S)
            return max(self._pause, self._budget.pause)
        self._pause = MIN_INTERVAL_S
        return IDLE_INTERVAL_S if folded.is_idle else CHECK_INTERVAL_S

    async def fold(self, pace: float = 0) -> Folded:
        """Fold the present counts, starting behind the last batch of the previous fold."""
        with self._budget:
            folded = await self._batches.fold(self._pool, MAX_JOBS_PER_FOLD, self._last_batch, pace)
        self._last_batch = folded.upto
        return folded
