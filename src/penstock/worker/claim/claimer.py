"""Claims jobs of one queue, and scans it for cursors."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from penstock.errors import LeaseLost
from penstock.lifecycle import DatabaseHealth, ScanBudget, Service
from penstock.store import ClaimedJob, Pool, Store, errors
from penstock.telemetry import Events, JobsClaimed
from penstock.worker.claim import plan
from penstock.worker.claim.cursors import PlannedTake
from penstock.worker.claim.queue import QueueState
from penstock.worker.lease import LeaseKeeper
from penstock.worker.limits.keeper import LimitKeeper


class Quota:
    """The number of jobs that all queues together may still claim. A closed quota grants none."""

    def __init__(self, limit: int | None = None) -> None:
        self._remaining = limit
        self.claimed = 0
        self.closed = False

    def grant(self, wanted: int) -> int:
        if self.closed:
            return 0
        return wanted if self._remaining is None else min(wanted, self._remaining)

    def spend(self, claimed: int) -> None:
        self.claimed += claimed
        if self._remaining is not None:
            self._remaining -= claimed

    @property
    def is_spent(self) -> bool:
        return self.closed or self._remaining == 0


logger = logging.getLogger("penstock.claim")

IDLE_PAUSE_S = 3600.0
# A scan finds this many cursors at most. A queue with more lanes is scanned in pages.
MAX_CURSORS_PER_SCAN = 20_000


class Claimer(Service):
    """Keeps the slots of one queue full. Notifications, freed slots and scans wake it."""

    def __init__(
        self,
        state: QueueState,
        pool: Pool,
        store: Store,
        lease_keeper: LeaseKeeper,
        health: DatabaseHealth,
        events: Events,
        *,
        limit_keeper: LimitKeeper,
        quota: Quota,
        max_jobs: int,
        room: Callable[[], int],
        on_claimed: Callable[[QueueState], None],
    ) -> None:
        super().__init__(health)
        self.name = f"claim of {state.name}"
        self._state = state
        self._pool = pool
        self._store = store
        self._lease_keeper = lease_keeper
        self._events = events
        self._limit_keeper = limit_keeper
        self._quota = quota
        self._max_jobs = max_jobs
        self._room = room
        self._on_claimed = on_claimed
        self._idle = asyncio.Event()
        # The limit keeper's answer count when a plan found that only its next answer could help.
        self._answers_when_asked: int | None = None

    async def wait_until_idle(self) -> None:
        """Wait until there is nothing more to claim for now."""
        await self._idle.wait()

    def wake(self) -> None:
        self._idle.clear()
        super().wake()

    async def tick(self) -> float:
        self._idle.clear()
        pause = await self._claim_once()
        if pause and not self._woken.is_set():
            self._idle.set()
        return pause

    async def _claim_once(self) -> float:
        wanted = self._quota.grant(min(self._state.wanted, self._max_jobs))
        if not wanted or not self._state.cursors or self._room() <= 0:
            return IDLE_PAUSE_S
        if self._answers_when_asked == self._limit_keeper.answer_count:
            return IDLE_PAUSE_S
        async with self._lease_keeper.claiming() as lease:
            room = self._room()
            if room <= 0:
                return IDLE_PAUSE_S
            wanted = min(wanted, room)
            takes, is_asking = plan.plan_claim(self._state, self._limit_keeper, wanted)
            if not takes:
                # All known jobs must wait: for a limit, a window, or somebody who resumes their
                # lane.
                self._answers_when_asked = self._limit_keeper.answer_count if is_asking else None
                return IDLE_PAUSE_S
            try:
                jobs = await self._claim(lease, takes, wanted)
                if lease != self._lease_keeper.lease:
                    # The lease was lost meanwhile: other workers will rescue these jobs, and this
                    # one must not run them.
                    return 0
                self._quota.spend(len(jobs))
                self._state.slots.measure()
                self._prefetch(takes, jobs)
            finally:
                plan.release_room(takes, self._limit_keeper)
        self._state.cursors.advance(takes, jobs, wanted)
        if jobs:
            self._events.emit(JobsClaimed(self._state.name, len(jobs)))
            self._on_claimed(self._state)
        # Claim again until no known cursor has jobs, or enough are prefetched.
        return 0

    def _prefetch(self, takes: list[PlannedTake], jobs: list[ClaimedJob]) -> None:
        first = takes[0].cursor.lane
        is_one_lane = len(takes) == 1 or all(take.cursor.lane == first for take in takes)
        self._state.buffer.extend(jobs, first if is_one_lane else None)
        if self._limit_keeper.book.is_on:
            for job in jobs:
                self._limit_keeper.count_prefetched(job)
            for grant in {grant for take in takes for grant in take.grants}:
                grant.slots.measure()

    async def _claim(self, lease: int, takes: list[PlannedTake], wanted: int) -> list[ClaimedJob]:
        self._state.cursors.begin_claim()
        cursors = [take.cursor for take in takes]
        limits = [take.max_jobs for take in takes]
        try:
            return await self._store.claim(
                self._pool, lease, self._state.name, cursors, limits, wanted
            )
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) or errors.is_lost(error):
                # The claim may have happened. The jobs that it took unknown to this worker must be
                # given back.
                self._lease_keeper.note_lost_answer()
            if errors.is_state(error, errors.LEASE_LOST):
                self._lease_keeper.lapse(lease)
                raise LeaseLost(str(lease)) from error
            raise


class Scanner(Service):
    """Scans a queue for cursors, to find jobs that no notification reported."""

    def __init__(
        self,
        state: QueueState,
        pool: Pool,
        store: Store,
        health: DatabaseHealth,
        *,
        min_interval: Callable[[], float],
        on_found: Callable[[], None],
    ) -> None:
        super().__init__(health)
        self.name = f"scan of {state.name}"
        self._state = state
        self._pool = pool
        self._store = store
        self._min_interval = min_interval
        self._on_found = on_found
        self._budget = ScanBudget(0.0)
        self._next_lane = ""
        self._resting_until = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def tick(self) -> float:
        with self._budget:
            await self.scan()
        rest = ScanBudget.PAUSE_FACTOR * self._budget.cost
        self._resting_until = time.monotonic() + rest
        return max(self._min_interval(), rest)

    def scan_soon(self) -> None:
        """Scan for new jobs now, or as soon as the pause after the last scan is over."""
        wait = self._resting_until - time.monotonic()
        if wait <= 0 or not self._state.cursors:
            self.wake()
        elif self._timer is None or self._timer.when() < asyncio.get_running_loop().time():
            self._timer = asyncio.get_running_loop().call_later(wait, self.wake)

    async def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await super().stop()

    async def scan(self) -> bool:
        """Scan one page.

        Return whether the queue is open and has jobs in a lane that is neither closed nor stopped
        by a limit of 0.
        """
        start = self._next_lane
        self._state.cursors.begin_scan()
        cursors = await self._store.scan_lanes(
            self._pool, self._state.name, start, MAX_CURSORS_PER_SCAN
        )
        self._next_lane = cursors[-1].lane if len(cursors) == MAX_CURSORS_PER_SCAN else ""
        self._state.cursors.end_scan(cursors, start, self._next_lane or None)
        if self._state.cursors:
            self._on_found()
        return self._state.has_claimable_cursors
