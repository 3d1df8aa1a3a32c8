"""The worker's lease: taken at the start, kept by the heartbeat, and compared with what runs."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from penstock.config import Liveness
from penstock.errors import StartTimeout
from penstock.lifecycle import Health, ScanBudget, Service
from penstock.store import Pool, Settlement, Store, close_idle, connect, errors
from penstock.telemetry import Events, LeaseTaken
from penstock.worker.heartbeat import Heartbeat, Signals
from penstock.worker.room import is_full

logger = logging.getLogger("penstock.worker")


class LeaseKeeper(Service):
    """One lease after the other. While there is none, nothing is claimed."""

    name = "lease"

    def __init__(
        self,
        url: str,
        pool: Pool,
        store: Store,
        health: Health,
        events: Events,
        liveness: Liveness,
        *,
        place: str,
        worker: str,
        info: Callable[[], dict[str, Any]],
    ) -> None:
        super().__init__(health)
        self._url = url
        self._pool = pool
        self._store = store
        self._events = events
        self._liveness = liveness
        self._place = place
        self._worker = worker
        self._info = info
        self._heartbeat: Heartbeat | None = None
        self._last_heartbeat: Heartbeat | None = None
        self._held = asyncio.Event()
        self._claims = asyncio.Lock()
        # Cleared once a heartbeat was refused, or the lease lapsed because they failed: the next
        # lease may end in the same way, so nothing is claimed until a heartbeat succeeds.
        self._is_renewed = asyncio.Event()
        self._is_renewed.set()
        # Why the database refuses heartbeats.
        self._refusal: Exception | None = None
        self.lease: int | None = None
        # Why the last try to take a lease failed.
        self.trouble: Exception | None = None
        self.on_signals: Callable[[Signals], None] = lambda _: None
        self.on_lapse: Callable[[int], None] = lambda _: None
        # The process ends at once, since its event loop is blocked.
        self.on_exit: Callable[[], object] = lambda: None
        self.on_doubt: Callable[[], None] = lambda: None

    async def tick(self) -> float:
        if self.lease is None:
            try:
                await self._take()
            except Exception as error:
                self.trouble = error
                if is_full(error):
                    # Others may get on with them; if all waited like this, nobody would.
                    close_idle(self._pool)
                raise
        return 3600.0

    async def _take(self) -> None:
        info = self._info()
        self._heartbeat = heartbeat = Heartbeat(
            self._url,
            self._store,
            self._liveness,
            self._events,
            told=info,
            info=self._info,
            signalled=lambda signals: self.on_signals(signals),
            renewed=lambda: self._note_renewal(lease),
            refused=lambda error: self._note_refusal(lease, error),
            lapsed=lambda: self.lapse(lease),
            exiting=lambda: self.on_exit(),
        )
        try:
            # First: at the server's connection limit nobody else could renew the lease.
            await heartbeat.connect()
            asked = time.monotonic()
            lease = await self._store.open_lease(
                self._pool, self._worker, self._liveness.lease, info
            )
        except BaseException:
            heartbeat.cease()
            raise
        heartbeat.begin(lease, asked)
        self.lease = lease
        self._held.set()
        self._events.emit(LeaseTaken(lease))

    @asynccontextmanager
    async def claiming(self) -> AsyncIterator[int]:
        """The lease to claim with, once there is one that the database renews.

        A reconciliation and a claim exclude each other.
        """
        while True:
            await self._held.wait()
            await self._is_renewed.wait()
            async with self._claims:
                if self.lease is not None and self._is_renewed.is_set():
                    yield self.lease
                    return

    @property
    def is_claiming(self) -> bool:
        """Whether a claim is under way, or something that excludes one."""
        return self._claims.locked()

    @asynccontextmanager
    async def undisturbed(self) -> AsyncIterator[int | None]:
        """No claim is under way while this lasts."""
        async with self._claims:
            yield self.lease

    async def held(self) -> int:
        """The lease, as soon as there is one."""
        while self.lease is None:
            await self._held.wait()
        return self.lease

    async def taken(self, seconds: float | None) -> None:
        """Wait so long for the first lease; raise StartTimeout if the start takes longer."""
        try:
            async with asyncio.timeout(seconds):
                await self.held()
        except TimeoutError:
            limit = self._liveness.start_wait
            why = self.trouble
            if why is None or not str(why):
                why = TimeoutError(f"no answer within {limit:g} s")
            raise StartTimeout(self._worker, limit, why, place=self._place) from why

    def doubt(self) -> None:
        """A claim's answer was lost: it may own jobs that nobody here knows."""
        self.on_doubt()

    def lapse(self, lease: int | None = None) -> None:
        """The lease is gone. Its jobs are stopped, and a new one is taken."""
        if self.lease is None or (lease is not None and lease != self.lease):
            return
        gone, self.lease = self.lease, None
        self._held.clear()
        heartbeat, self._heartbeat = self._heartbeat, None
        if heartbeat is not None:
            if heartbeat.failure is not None:
                self._is_renewed.clear()
            heartbeat.cease()
        self.on_lapse(gone)
        self.wake()

    def _note_renewal(self, lease: int) -> None:
        """A heartbeat succeeded: the lease will live."""
        if lease != self.lease:
            return
        self._is_renewed.set()
        if self._refusal is not None:
            self._refusal = None
            logger.warning("The database accepts heartbeats again; jobs are claimed again.")

    def _note_refusal(self, lease: int, error: Exception) -> None:
        """Stop claiming, and say once why: each job would be cut off when the lease ends."""
        if lease != self.lease:
            return
        self._is_renewed.clear()
        before, self._refusal = self._refusal, error
        if before is None or errors.sqlstate(before) != errors.sqlstate(error):
            logger.error(
                "The database refuses the heartbeat of lease %d (%s): %s%s Mend what this names. "
                "Until a heartbeat succeeds, this worker claims no jobs; those that run are "
                "stopped when the lease ends.",
                lease,
                errors.sqlstate(error),
                errors.with_hint(error),
                self._where(error),
            )

    def _where(self, error: Exception) -> str:
        function = errors.foreign_function(error, self._store.schema)
        return "" if function is None else f" It was raised in your function {function}."

    def beat_soon(self, lease: int) -> None:
        """There is a signal for a lease; fetch it if the lease is ours."""
        if lease == self.lease and self._heartbeat is not None:
            self._heartbeat.soon()

    async def close(self) -> int:
        """Give the lease back, and with it all jobs that still run: how many those were."""
        await self.stop()
        heartbeat, self._heartbeat = self._heartbeat, None
        lease, self.lease = self.lease, None
        self._held.clear()
        released = 0
        self._last_heartbeat = heartbeat
        if heartbeat is not None:
            heartbeat.leave()
        if lease is not None:
            released = await self._store.close_lease(self._pool, lease)
        return released

    async def give_back(self, unwritten: Sequence[Settlement], why: str) -> None:
        """Give the lease back on a connection of its own, from a thread while the event loop hangs.

        First, count a loss for each job whose outcome is unwritten. If that fails, let the lease
        run out instead, so that a rescue counts them.
        """
        if (lease := self.lease) is None:
            return
        connection = await connect(self._url, name="penstock end")
        try:
            if unwritten:
                await self._store.mark_outcomes_lost(connection, unwritten, why)
            await self._store.close_lease(connection, lease)
        finally:
            connection.terminate()

    async def abandon(self, seconds: float) -> None:
        """End the heartbeat, whether or not the lease could be given back."""
        # First of all: whoever waits for this may give up, and the lease must not live on then.
        self._cease()
        await self.stop()
        # It may have taken one more lease meanwhile.
        self._cease()
        heartbeat = self._last_heartbeat or self._heartbeat
        self._heartbeat = self._last_heartbeat = None
        if heartbeat is not None:
            await heartbeat.halt(seconds)

    def _cease(self) -> None:
        for heartbeat in (self._last_heartbeat, self._heartbeat):
            if heartbeat is not None:
                heartbeat.cease()


class Reconciler(Service):
    """After a lost answer to a claim, and now and then, releases jobs nobody here runs."""

    name = "reconciliation"

    def __init__(
        self,
        pool: Pool,
        store: Store,
        lease_keeper: LeaseKeeper,
        health: Health,
        known: Callable[[], list[int]],
        every: float,
    ) -> None:
        super().__init__(health)
        self._pool = pool
        self._store = store
        self._lease_keeper = lease_keeper
        self._known = known
        self._budget = ScanBudget(every)

    async def tick(self) -> float:
        async with self._lease_keeper.undisturbed() as lease:
            if lease is not None:
                with self._budget:
                    released = await self._store.release(self._pool, lease, self._known())
                if released:
                    logger.warning(
                        "Jobs that were claimed without our knowing are given back: %d.", released
                    )
        return self._budget.pause
