"""Makes scheduled jobs ready when their time has come."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime
from time import monotonic

from penstock.lifecycle import Health, ScanBudget, Service
from penstock.store import Pool, Store

LIMIT = 2000
RESCAN = 2.0


class Promoter(Service):
    """Sleeps until the next job is due; told of an earlier one, it wakes earlier.

    Like a claim it begins at a mark, past the dead entries of jobs long promoted, and looks from
    the beginning only now and then.
    """

    name = "promotion"

    def __init__(
        self,
        pool: Pool,
        store: Store,
        health: Health,
        leads: Callable[[], bool],
        most: Callable[[], float],
    ) -> None:
        super().__init__(health)
        self._pool = pool
        self._store = store
        self._leads = leads
        self._most = most
        self._mark: datetime | None = None
        # The earliest time told since the last look began.
        self._heard: datetime | None = None
        self._budget = ScanBudget(RESCAN)
        self._rescan_at = 0.0
        self._next_in: float | None = None

    def due(self, run_at: datetime) -> None:
        """News of a job due at this time."""
        self._heard = run_at if self._heard is None else min(self._heard, run_at)
        self.wake()

    async def tick(self) -> float:
        most = self._most()
        if not self._leads():
            return most
        if await self.promote() == LIMIT:
            return 0
        return most if self._next_in is None else min(max(self._next_in, 0.0), most)

    async def promote(self) -> int:
        """Make ready what is due, up to a limit: how many."""
        mark, heard, self._heard = self._mark, self._heard, None
        if monotonic() >= self._rescan_at:
            mark = None
        elif mark is not None and heard is not None:
            mark = min(mark, heard)
        try:
            with self._budget if mark is None else nullcontext():
                promoted, self._mark, self._next_in = await self._store.promote(
                    self._pool, mark, LIMIT
                )
        except BaseException:
            self._rescan_at = 0.0
            raise
        if mark is None:
            self._rescan_at = monotonic() + self._budget.pause
        return promoted
