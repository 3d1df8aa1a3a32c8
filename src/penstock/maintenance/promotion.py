"""Promotes scheduled jobs to ready when their time has come."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime
from time import monotonic

from penstock.lifecycle import DatabaseHealth, ScanBudget, Service
from penstock.store import Pool, Store

MAX_JOBS_PER_RUN = 2000
RESCAN_INTERVAL_S = 2.0


class Promoter(Service):
    """Sleeps until the next job is due, and wakes up if an earlier job is reported.

    Like a claim, it starts to read at a cursor, behind the dead index entries of jobs promoted long
    ago. It rescans from the beginning only now and then.
    """

    name = "promotion"

    def __init__(
        self,
        pool: Pool,
        store: Store,
        health: DatabaseHealth,
        leads: Callable[[], bool],
        max_pause: Callable[[], float],
    ) -> None:
        super().__init__(health)
        self._pool = pool
        self._store = store
        self._leads = leads
        self._max_pause = max_pause
        self._cursor: datetime | None = None
        # The earliest time that was reported since the last run began.
        self._earliest_news: datetime | None = None
        self._budget = ScanBudget(RESCAN_INTERVAL_S)
        self._rescan_at = 0.0
        self._next_in: float | None = None

    def note_due(self, run_at: datetime) -> None:
        """Note that a job is due at this time."""
        self._earliest_news = (
            run_at if self._earliest_news is None else min(self._earliest_news, run_at)
        )
        self.wake()

    async def tick(self) -> float:
        max_pause = self._max_pause()
        if not self._leads():
            return max_pause
        if await self.promote() == MAX_JOBS_PER_RUN:
            return 0
        return max_pause if self._next_in is None else min(max(self._next_in, 0.0), max_pause)

    async def promote(self) -> int:
        """Promote due jobs, up to a limit, and return how many."""
        cursor, news, self._earliest_news = self._cursor, self._earliest_news, None
        if monotonic() >= self._rescan_at:
            cursor = None
        elif cursor is not None and news is not None:
            cursor = min(cursor, news)
        try:
            with self._budget if cursor is None else nullcontext():
                promoted, self._cursor, self._next_in = await self._store.promote(
                    self._pool, cursor, MAX_JOBS_PER_RUN
                )
        except BaseException:
            self._rescan_at = 0.0
            raise
        if cursor is None:
            self._rescan_at = monotonic() + self._budget.pause
        return promoted
