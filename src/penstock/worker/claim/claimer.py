"""Claims jobs of one queue and starts them, as slots are free."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from penstock.errors import LeaseLost
from penstock.lifecycle import Health, ScanBudget, Service
from penstock.store import ClaimedJob, Pool, Store, errors
from penstock.telemetry import Events, JobsClaimed
from penstock.worker.claim import plan
from penstock.worker.claim.cursors import Visit
from penstock.worker.claim.queue import QueueState
from penstock.worker.lease import Session
from penstock.worker.limits.keeper import LimitKeeper


class Quota:
    """A number of claims that all queues share. Closed, it grants nothing more."""

    def __init__(self, limit: int | None = None) -> None:
        self._left = limit
        self.claimed = 0
        self.closed = False

    def grant(self, wanted: int) -> int:
        if self.closed:
            return 0
        return wanted if self._left is None else min(wanted, self._left)

    def spend(self, claimed: int) -> None:
        self.claimed += claimed
        if self._left is not None:
            self._left -= claimed

    @property
    def is_spent(self) -> bool:
        return self.closed or self._left == 0


logger = logging.getLogger("penstock.claim")

FOR_EVER = 3600.0
# Lines looked for at once; a queue of more lanes is looked through in pages.
PAGE = 20_000


class Claimer(Service):
    """Keeps the slots of one queue full. Woken by news, by freed slots and by scans."""

    def __init__(
        self,
        state: QueueState,
        pool: Pool,
        store: Store,
        session: Session,
        health: Health,
        events: Events,
        *,
        limiter: LimitKeeper,
        quota: Quota,
        most: int,
        room: Callable[[], int],
        deliver: Callable[[QueueState], None],
    ) -> None:
        super().__init__(health)
        self.name = f"claim of {state.name}"
        self._state = state
        self._pool = pool
        self._store = store
        self._session = session
        self._events = events
        self._limiter = limiter
        self._quota = quota
        self._most = most
        self._room = room
        self._deliver = deliver
        self._idle = asyncio.Event()
        # What the limiter had answered when nothing but its next answer could help.
        self._asked: int | None = None

    async def settled(self) -> None:
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
        wanted = self._quota.grant(min(self._state.wanted, self._most))
        if not wanted or not self._state.marks or self._room() <= 0:
            return FOR_EVER
        if self._asked == self._limiter.answers:
            return FOR_EVER
        async with self._session.claiming() as lease:
            room = self._room()
            if room <= 0:
                return FOR_EVER
            wanted = min(wanted, room)
            chosen, is_asking = plan.choose(self._state, self._limiter, wanted)
            if not chosen:
                # All that is known must wait: for a limit, a window, somebody who resumes it.
                self._asked = self._limiter.answers if is_asking else None
                return FOR_EVER
            try:
                jobs = await self._claim(lease, chosen, wanted)
                if lease != self._session.lease:
                    # It was lost meanwhile: these jobs will be rescued, they are not ours to run.
                    return 0
                self._quota.spend(len(jobs))
                self._state.slots.measure()
                self._take_in_hand(chosen, jobs)
            finally:
                plan.end(chosen, self._limiter)
        self._state.marks.advance(chosen, jobs, wanted)
        if jobs:
            self._events.emit(JobsClaimed(self._state.name, len(jobs)))
            self._deliver(self._state)
        # Until no known line has jobs any more, or there is enough at hand.
        return 0

    def _take_in_hand(self, chosen: list[Visit], jobs: list[ClaimedJob]) -> None:
        first = chosen[0].line.lane
        is_one = len(chosen) == 1 or all(visit.line.lane == first for visit in chosen)
        self._state.hand.extend(jobs, first if is_one else None)
        if self._limiter.holdings.is_on:
            for job in jobs:
                self._limiter.expect(job)
            for grant in {one for visit in chosen for one in visit.grants}:
                grant.slots.measure()

    async def _claim(self, lease: int, chosen: list[Visit], wanted: int) -> list[ClaimedJob]:
        self._state.marks.begin_claim()
        lines = [visit.line for visit in chosen]
        takes = [visit.take for visit in chosen]
        try:
            return await self._store.claim(
                self._pool, lease, self._state.name, lines, takes, wanted
            )
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) or errors.is_lost(error):
                # It may have happened: what it claimed without our knowing must be given back.
                self._session.doubt()
            if errors.is_state(error, errors.LEASE_LOST):
                self._session.lapse(lease)
                raise LeaseLost(str(lease)) from error
            raise


class Scanner(Service):
    """Looks where the lines of a queue begin, for all that no notification told."""

    def __init__(
        self,
        state: QueueState,
        pool: Pool,
        store: Store,
        health: Health,
        *,
        shortest: Callable[[], float],
        found: Callable[[], None],
    ) -> None:
        super().__init__(health)
        self.name = f"scan of {state.name}"
        self._state = state
        self._pool = pool
        self._store = store
        self._shortest = shortest
        self._found = found
        self._budget = ScanBudget(0.0)
        self._start = ""
        self._rested = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def tick(self) -> float:
        with self._budget:
            await self.scan()
        rest = ScanBudget.PAUSE_FACTOR * self._budget.cost
        self._rested = time.monotonic() + rest
        return max(self._shortest(), rest)

    def soon(self) -> None:
        """There are new jobs somewhere: look now, or when the last look is paid for."""
        wait = self._rested - time.monotonic()
        if wait <= 0 or not self._state.marks:
            self.wake()
        elif self._timer is None or self._timer.when() < asyncio.get_running_loop().time():
            self._timer = asyncio.get_running_loop().call_later(wait, self.wake)

    async def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await super().stop()

    async def scan(self) -> bool:
        """Whether the queue has ready jobs that need not wait for a window or a person."""
        start = self._start
        self._state.marks.begin_scan()
        lines = await self._store.scan_lanes(self._pool, self._state.name, start, PAGE)
        self._start = lines[-1].lane if len(lines) == PAGE else ""
        self._state.marks.end_scan(lines, start, self._start or None)
        if self._state.marks:
            self._found()
        return self._state.has_open_lines
