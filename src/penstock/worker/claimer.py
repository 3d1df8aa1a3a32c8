"""Claims jobs of one queue and starts them, as slots are free."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from penstock.errors import LeaseLost
from penstock.events import Events, JobsClaimed
from penstock.lifecycle import Budget, Health, Service
from penstock.store import Attempt, Pool, Store, failures
from penstock.worker.queue_state import QueueState
from penstock.worker.quota import Quota
from penstock.worker.session import Session

logger = logging.getLogger("penstock.claim")

FOR_EVER = 3600.0


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
        quota: Quota,
        most: int,
        has_room: Callable[[], bool],
        deliver: Callable[[QueueState], None],
    ) -> None:
        super().__init__(health)
        self.name = f"claim of {state.name}"
        self._state = state
        self._pool = pool
        self._store = store
        self._session = session
        self._events = events
        self._quota = quota
        self._most = most
        self._has_room = has_room
        self._deliver = deliver
        self._idle = asyncio.Event()

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
        if not wanted or not self._state.marks or not self._has_room():
            return FOR_EVER
        async with self._session.claiming() as lease:
            if not self._has_room():
                return FOR_EVER
            attempts = await self._claim(lease, wanted)
            if lease != self._session.lease:
                # It was lost meanwhile: these jobs will be rescued, they are not ours to run.
                return 0
            self._quota.spend(len(attempts))
            self._state.slots.measure()
            self._state.fetched.extend(attempts)
        if attempts:
            self._state.marks.advance(attempts)
            self._events.emit(JobsClaimed(self._state.name, len(attempts)))
            self._deliver(self._state)
        # A short claim means that all known lines are used up.
        return 0 if len(attempts) == wanted else FOR_EVER

    async def _claim(self, lease: int, wanted: int) -> list[Attempt]:
        lines = self._state.marks.lines()
        self._state.marks.begin_claim()
        if not lines:
            # A scan has found nothing while we waited for the lease.
            return []
        try:
            return await self._store.claim(self._pool, lease, self._state.name, lines, wanted)
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) or failures.is_lost(error):
                # It may have happened: what it claimed without our knowing must be given back.
                self._session.doubt()
            if failures.is_state(error, failures.LEASE_LOST):
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
        pause: Callable[[float], float],
        found: Callable[[], None],
    ) -> None:
        super().__init__(health)
        self.name = f"scan of {state.name}"
        self._state = state
        self._pool = pool
        self._store = store
        self._pause = pause
        self._found = found
        self._budget = Budget(0.0)

    async def tick(self) -> float:
        with self._budget:
            await self.scan()
        return self._pause(self._budget.cost)

    async def scan(self) -> bool:
        """Whether the queue has ready jobs."""
        self._state.marks.begin_scan()
        lines = await self._store.scan_lines(self._pool, self._state.name)
        self._state.marks.end_scan(lines)
        if self._state.marks:
            self._found()
        return bool(lines)
