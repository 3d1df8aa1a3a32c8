"""The worker's lease: taken at the start, renewed by the heartbeat, compared with what runs."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from penstock.config import Liveness
from penstock.errors import StartTimeout
from penstock.lifecycle import DatabaseHealth, ScanBudget, Service
from penstock.store import Pool, Settlement, Store, close_idle, connect, errors
from penstock.telemetry import Events, LeaseTaken
from penstock.worker.heartbeat import Heartbeat, Signals
from penstock.worker.room import is_too_many_connections

logger = logging.getLogger("penstock.worker")


class LeaseKeeper(Service):
    """Takes a lease, and a new one whenever it is lost. Without a lease, nothing is claimed."""

    name = "lease"

    def __init__(
        self,
        url: str,
        pool: Pool,
        store: Store,
        health: DatabaseHealth,
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
        self._has_lease = asyncio.Event()
        self._claims = asyncio.Lock()
        # Cleared when a heartbeat was refused, or the lease lapsed because heartbeats failed: the
        # next lease may end in the same way, so nothing is claimed until a heartbeat succeeds.
        self._is_renewed = asyncio.Event()
        self._is_renewed.set()
        # Why the database refuses heartbeats.
        self._refusal: Exception | None = None
        self.lease: int | None = None
        # Why the last try to take a lease failed.
        self.last_error: Exception | None = None
        self.on_signals: Callable[[Signals], None] = lambda _: None
        self.on_lapse: Callable[[int], None] = lambda _: None
        # Called when the process ends at once, because its event loop is blocked.
        self.on_exit: Callable[[], object] = lambda: None
        self.on_lost_answer: Callable[[], None] = lambda: None

    async def tick(self) -> float:
        if self.lease is None:
            try:
                await self._take_lease()
            except Exception as error:
                self.last_error = error
                if is_too_many_connections(error):
                    # Other processes may need these connections; if all waited like this, none
                    # would start.
                    close_idle(self._pool)
                raise
        return 3600.0

    async def _take_lease(self) -> None:
        info = self._info()
        self._heartbeat = heartbeat = Heartbeat(
            self._url,
            self._store,
            self._liveness,
            self._events,
            reported_info=info,
            info=self._info,
            on_signals=lambda signals: self.on_signals(signals),
            on_renewed=lambda: self._handle_renewal(lease),
            on_refused=lambda error: self._handle_refusal(lease, error),
            on_lapsed=lambda: self.lapse(lease),
            on_exit=lambda: self.on_exit(),
        )
        try:
            # The heartbeat connects first: at the server's connection limit nobody else could renew
            # the lease.
            await heartbeat.connect()
            asked = time.monotonic()
            lease = await self._store.open_lease(
                self._pool, self._worker, self._liveness.lease, info
            )
        except BaseException:
            heartbeat.stop_beating()
            raise
        heartbeat.start_renewing(lease, asked)
        self.lease = lease
        self._has_lease.set()
        self._events.emit(LeaseTaken(lease))

    @asynccontextmanager
    async def claiming(self) -> AsyncIterator[int]:
        """Wait for a lease that the database renews, and yield it for one claim.

        A claim and a reconciliation never run at the same time.
        """
        while True:
            await self._has_lease.wait()
            await self._is_renewed.wait()
            async with self._claims:
                if self.lease is not None and self._is_renewed.is_set():
                    yield self.lease
                    return

    @property
    def is_claiming(self) -> bool:
        """Whether a claim or a block under `without_claims` is under way."""
        return self._claims.locked()

    @asynccontextmanager
    async def without_claims(self) -> AsyncIterator[int | None]:
        """Keep claims from running during this block. Yield the current lease, or None."""
        async with self._claims:
            yield self.lease

    async def wait_for_lease(self) -> int:
        """Wait until the worker has a lease, and return it."""
        while self.lease is None:
            await self._has_lease.wait()
        return self.lease

    async def wait_for_first_lease(self, seconds: float | None) -> None:
        """Wait for the first lease; raise StartTimeout if it takes longer than these seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self.wait_for_lease()
        except TimeoutError:
            limit = self._liveness.start_wait
            why = self.last_error
            if why is None or not str(why):
                why = TimeoutError(f"no answer within {limit:g} s")
            raise StartTimeout(self._worker, limit, why, place=self._place) from why

    def note_lost_answer(self) -> None:
        """Report that a claim's answer was lost.

        The lease may own jobs that this worker does not know.
        """
        self.on_lost_answer()

    def lapse(self, lease: int | None = None) -> None:
        """Handle the loss of the lease: stop the jobs under it, and take a new lease."""
        if self.lease is None or (lease is not None and lease != self.lease):
            return
        lost_lease, self.lease = self.lease, None
        self._has_lease.clear()
        heartbeat, self._heartbeat = self._heartbeat, None
        if heartbeat is not None:
            if heartbeat.failure is not None:
                self._is_renewed.clear()
            heartbeat.stop_beating()
        self.on_lapse(lost_lease)
        self.wake()

    def _handle_renewal(self, lease: int) -> None:
        """Note that a heartbeat succeeded, so that claims may go on."""
        if lease != self.lease:
            return
        self._is_renewed.set()
        if self._refusal is not None:
            self._refusal = None
            logger.warning("The database accepts heartbeats again; jobs are claimed again.")

    def _handle_refusal(self, lease: int, error: Exception) -> None:
        """Stop claiming, and log the reason once. New jobs would be cut off when the lease ends."""
        if lease != self.lease:
            return
        self._is_renewed.clear()
        last_refusal, self._refusal = self._refusal, error
        if last_refusal is None or errors.sqlstate(last_refusal) != errors.sqlstate(error):
            logger.error(
                "The database refuses the heartbeat of lease %d (%s): %s%s Fix what the error "
                "names. Until a heartbeat succeeds, this worker claims no jobs; those that run are "
                "stopped when the lease ends.",
                lease,
                errors.sqlstate(error),
                errors.with_hint(error),
                self._failed_function(error),
            )

    def _failed_function(self, error: Exception) -> str:
        function = errors.foreign_function(error, self._store.schema)
        return "" if function is None else f" It was raised in your function {function}."

    def beat_soon(self, lease: int) -> None:
        """Send a heartbeat now if this is the current lease. There may be a signal to fetch."""
        if lease == self.lease and self._heartbeat is not None:
            self._heartbeat.beat_soon()

    async def close(self) -> int:
        """Give back the lease and all jobs that still run. Return the number of these jobs."""
        await self.stop()
        heartbeat, self._heartbeat = self._heartbeat, None
        lease, self.lease = self.lease, None
        self._has_lease.clear()
        released = 0
        self._last_heartbeat = heartbeat
        if heartbeat is not None:
            heartbeat.note_leaving()
        if lease is not None:
            released = await self._store.close_lease(self._pool, lease)
        return released

    async def give_back(self, unwritten: Sequence[Settlement], why: str) -> None:
        """Give back the lease on a new connection, from another thread while the event loop hangs.

        First count a loss for each job whose outcome is unwritten. If that fails, let the lease
        expire instead, so that a rescue counts the losses.
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

    async def stop_heartbeats(self, seconds: float) -> None:
        """End the heartbeats, whether or not the lease could be given back."""
        # Stop first of all: whoever waits for this may give up, and the lease must not live on
        # then.
        self._stop_beating()
        await self.stop()
        # It may have taken one more lease meanwhile.
        self._stop_beating()
        heartbeat = self._last_heartbeat or self._heartbeat
        self._heartbeat = self._last_heartbeat = None
        if heartbeat is not None:
            await heartbeat.stop_and_join(seconds)

    def _stop_beating(self) -> None:
        for heartbeat in (self._last_heartbeat, self._heartbeat):
            if heartbeat is not None:
                heartbeat.stop_beating()


class Reconciler(Service):
    """Gives back jobs that are claimed under this lease but unknown to this worker.

    It runs at intervals, and after the answer to a claim was lost.
    """

    name = "reconciliation"

    def __init__(
        self,
        pool: Pool,
        store: Store,
        lease_keeper: LeaseKeeper,
        health: DatabaseHealth,
        list_known_jobs: Callable[[], list[int]],
        interval: float,
    ) -> None:
        super().__init__(health)
        self._pool = pool
        self._store = store
        self._lease_keeper = lease_keeper
        self._list_known_jobs = list_known_jobs
        self._budget = ScanBudget(interval)

    async def tick(self) -> float:
        async with self._lease_keeper.without_claims() as lease:
            if lease is not None:
                with self._budget:
                    released = await self._store.release(self._pool, lease, self._list_known_jobs())
                if released:
                    logger.warning(
                        "Jobs that the database assigned to this worker, but that never "
                        "reached it, are given back: %d.",
                        released,
                    )
        return self._budget.pause
