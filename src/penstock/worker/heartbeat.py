"""The heartbeat: a thread with its own loop and its own connection.

A handler that blocks the worker's loop must not cost the worker its lease, nor must a pool whose
connections are all in use. But a loop that is blocked for ever must cost the lease. So the thread
renews the lease only while the loop has ticked within the stall limit. A thread that cannot reach
the database gives up the lease before it would expire, so that a cut-off worker stops its jobs
before another worker starts them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any
from uuid import UUID

from penstock.config import Liveness
from penstock.store import Connection, Store, connect, errors
from penstock.telemetry import Events, LoopStalled
from penstock.worker.whereabouts import dump_stacks, find_attempt

logger = logging.getLogger("penstock.heartbeat")

Signals = list[tuple[int, UUID, str]]
EXIT_STALLED = 70
CHECK_INTERVAL_S = 0.5
# A check that is this late was delayed because the process was stopped or suspended.
LATE_CHECK_S = 1.0


class Heartbeat(threading.Thread):
    """Renews one lease until the thread is stopped or the lease is lost.

    It calls `on_renewed` after its first successful beat, and after the first one that follows a
    failed beat. It calls `on_refused` after a beat that failed with a permanent error.
    """

    def __init__(
        self,
        url: str,
        store: Store,
        liveness: Liveness,
        events: Events,
        *,
        reported_info: dict[str, Any],
        info: Callable[[], dict[str, Any]],
        on_signals: Callable[[Signals], None],
        on_renewed: Callable[[], None],
        on_refused: Callable[[Exception], None],
        on_lapsed: Callable[[], None],
        on_exit: Callable[[], object],
    ) -> None:
        super().__init__(name="penstock heartbeat", daemon=True)
        self._url = url
        self._store = store
        self._lease: int | None = None
        self._liveness = liveness
        self._events = events
        self._reported_info = reported_info
        self._info = info
        self._on_signals = on_signals
        self._on_renewed = on_renewed
        self._on_refused = on_refused
        self._on_lapsed = on_lapsed
        self._on_exit = on_exit
        self._worker_loop = asyncio.get_running_loop()
        self._worker_thread = threading.get_ident()
        self._tick_asked = False
        # For how many seconds the loop has owed a tick, without the time in which this thread stood
        # still.
        self._unanswered_s = 0.0
        self._warned = False
        self._logged_error: str | None = None
        self._given_up = False
        self._failed_beats = 0
        # Why the beats since the last renewal failed.
        self.failure: Exception | None = None
        self._is_proven = False
        self._is_silent = False
        # When the last successful beat was sent, not answered: the database began to count in
        # between.
        self._renewed_at = float("inf")
        self._connected: Future[None] = Future()
        self._margin = min(liveness.heartbeat / 2, liveness.lease / 10)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.Event | None = None
        self._beating: asyncio.Task[None] | None = None
        self._stopping = False
        self._leaving = False

    # Called from the worker's loop

    async def connect(self) -> None:
        """Start the thread and wait until it is connected.

        A lease must not begin before the thread can renew it.
        """
        self.start()
        await asyncio.wrap_future(self._connected)

    def start_renewing(self, lease: int, taken_at: float) -> None:
        """Renew this lease from now on.

        The worker took it at `taken_at`, by the monotonic clock.
        """
        self.name = f"penstock heartbeat {lease}"
        self._renewed_at, self._lease = taken_at, lease
        self.beat_soon()

    def note_leaving(self) -> None:
        """Note that the worker gives back the lease, so that its end is not logged as a loss."""
        self._leaving = True

    def beat_soon(self) -> None:
        """Beat now, for example because there may be a signal to fetch."""
        if self._wake is not None:
            self._call_in_thread(self._wake.set)

    def stop_beating(self) -> None:
        """Stop beating. The thread ends by itself."""
        self._stopping = True
        if self._beating is not None:
            # A beat may be under way that a frozen database does not answer.
            self._call_in_thread(self._beating.cancel)

    async def stop_and_join(self, seconds: float) -> None:
        """Stop beating, and wait at most these seconds for the thread to end."""
        self.stop_beating()
        await asyncio.get_running_loop().run_in_executor(None, self.join, seconds)

    def _call_in_thread(self, function: Callable[[], object]) -> None:
        """Call a function on this thread's loop, unless the loop has ended."""
        if self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(function)

    # The thread

    def run(self) -> None:
        with suppress(asyncio.CancelledError):
            asyncio.run(self._beat_until_stopped())

    async def _beat_until_stopped(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._beating = asyncio.current_task()
        if (connection := await self._connect_and_wait()) is None:
            return
        watcher = asyncio.create_task(self._watch_loop())
        try:
            await self._beat_on(connection)
            # The worker's loop learns that its lease is lost; a loop that is blocked for good never
            # does.
            while not (self._stopping or self._leaving or self._given_up):
                if self._worker_loop.is_closed():
                    return
                await asyncio.sleep(CHECK_INTERVAL_S)
        finally:
            watcher.cancel()

    async def _connect_and_wait(self) -> Connection | None:
        """Connect, and wait for a lease to renew.

        Return the connection, or None if the connection failed or there will be no lease.
        """
        try:
            connection = await connect(self._url, name="penstock heartbeat")
        except Exception as error:
            self._resolve_connected(error)
            return None
        try:
            self._resolve_connected(None)
            while self._lease is None and not self._worker_loop.is_closed():
                await self._rest(time.monotonic() + CHECK_INTERVAL_S)
                if self._stopping:
                    break
        except asyncio.CancelledError:
            connection.terminate()
            raise
        if self._lease is not None:
            return connection
        connection.terminate()
        return None

    def _resolve_connected(self, error: Exception | None) -> None:
        with suppress(InvalidStateError):  # nobody waits for it any more
            if error is None:
                self._connected.set_result(None)
            else:
                self._connected.set_exception(error)

    async def _beat_on(self, connection: Connection | None) -> None:
        """Renew the lease until it is lost, given up or given back."""
        try:
            while not self._stopping:
                began = time.monotonic()
                connection = await self._beat(connection)
                if self._is_lease_over():
                    return
                await self._rest(min(began + self._pause(), self._deadline))
                if self._given_up:
                    self._call_on_worker_loop(self._on_lapsed)
                    return
        finally:
            if connection is not None:
                connection.terminate()

    async def _beat(self, connection: Connection | None) -> Connection | None:
        """Renew the lease once. Return the connection, or None if it no longer works."""
        assert self._lease is not None
        sent = time.monotonic()
        info = self._info()
        timeout_s = self._beat_timeout(sent)
        try:
            async with asyncio.timeout(timeout_s):
                connection = connection or await connect(
                    self._url, name="penstock heartbeat", timeout=timeout_s
                )
                alive, signals = await self._store.heartbeat(
                    connection,
                    self._lease,
                    self._liveness.lease,
                    None if info == self._reported_info else info,
                )
        except Exception as error:
            self._note_failure(error, time.monotonic() - sent)
            if connection is not None:
                connection.terminate()
            return None
        except asyncio.CancelledError:
            if connection is not None:
                connection.terminate()
            raise
        self._note_answer()
        if not alive:
            self._renewed_at = float("-inf")
            return connection
        self._renewed_at, self._reported_info = sent, info
        self._logged_error = self.failure = None
        if not self._is_proven:
            self._is_proven = True
            self._call_on_worker_loop(self._on_renewed)
        if signals:
            self._call_on_worker_loop(lambda: self._on_signals(signals))
        return connection

    @property
    def _deadline(self) -> float:
        """When to treat the lease as lost, unless a beat renews it before."""
        return self._renewed_at + self._liveness.lease - self._margin

    def _beat_timeout(self, now: float) -> float:
        """Return how many seconds a beat may take, so that it does not outlast the lease."""
        longest = min(self._liveness.heartbeat, self._liveness.lease / 4, self._deadline - now)
        return max(longest, self._margin / 2)

    def _pause(self) -> float:
        """Return how many seconds after a beat the next one is due.

        The pause is longer while the database refuses beats.
        """
        if self.failure is None:
            return self._liveness.heartbeat
        if errors.is_unavailable(self.failure):
            return CHECK_INTERVAL_S
        backoff = CHECK_INTERVAL_S * 2.0 ** min(self._failed_beats, 16)
        return max(CHECK_INTERVAL_S, min(backoff, self._liveness.heartbeat))

    def _is_lease_over(self) -> bool:
        """Return whether the lease is lost, or so near its end that it must be treated as lost."""
        if time.monotonic() < self._deadline:
            return False
        if self._stopping or self._leaving:
            return True
        logger.warning(
            "Lease %d is lost (%s); its jobs are stopped here.",
            self._lease,
            self._loss_reason(),
        )
        self._call_on_worker_loop(self._on_lapsed)
        return True

    def _loss_reason(self) -> str:
        if self.failure is None:
            return "it expired"
        if errors.is_lost(self.failure):
            return "the database could not be reached in time"
        return f"its last heartbeat failed: {errors.cause(self.failure)}"

    def _note_failure(self, error: Exception, seconds: float) -> None:
        """Report a failed beat. An error that repeats is reported once, not at each try."""
        self.failure, self._is_proven = error, False
        self._failed_beats += 1
        if errors.is_lost(error):
            self._note_silence(error, seconds)
        elif errors.is_permanent(error):
            self._call_on_worker_loop(lambda: self._on_refused(error))
        elif not errors.is_unavailable(error) and repr(error) != self._logged_error:
            # Errors that keep all services waiting are logged by those.
            self._logged_error = repr(error)
            logger.exception("The heartbeat failed and is tried again.")

    def _note_silence(self, error: Exception, seconds: float) -> None:
        """Log once that the database does not answer. A single broken connection is not logged."""
        is_news = isinstance(error, TimeoutError) or self._failed_beats > 1
        if self._is_silent or not is_news:
            return
        self._is_silent = True
        logger.warning(
            "The database does not answer the heartbeat (%s); lease %d ends in %.0f s unless it "
            "does.",
            str(error) or f"nothing came within {seconds:.1f} s",
            self._lease,
            max(self._deadline - time.monotonic(), 0),
        )

    def _note_answer(self) -> None:
        self._failed_beats = 0
        if self._is_silent:
            self._is_silent = False
            logger.warning("The database answers the heartbeat again.")

    async def _rest(self, until: float) -> None:
        """Wait until the next beat is due or asked for."""
        assert self._wake is not None
        while not (self._stopping or self._given_up or self._wake.is_set()):
            left = until - time.monotonic()
            if left <= 0:
                break
            try:
                async with asyncio.timeout(min(left, CHECK_INTERVAL_S)):
                    await self._wake.wait()
            except TimeoutError:
                continue
        self._wake.clear()

    # The worker's loop, seen from here

    async def _watch_loop(self) -> None:
        """Ask the worker's loop for ticks, and judge the loop by how long a tick stays unanswered.

        After a pause of the whole process (SIGSTOP, a suspended laptop) the clock is far ahead, but
        the loop had no more chance to run than this thread. So a late check counts as if it were on
        time.
        """
        checked_at = time.monotonic()
        while not (self._stopping or self._given_up):
            if not self._tick_asked:
                self._tick_asked, self._unanswered_s, self._warned = True, 0.0, False
                self._call_on_worker_loop(self._tick)
            await asyncio.sleep(CHECK_INTERVAL_S)
            now = time.monotonic()
            if self._tick_asked:
                elapsed = now - checked_at
                self._unanswered_s += (
                    elapsed if elapsed < CHECK_INTERVAL_S + LATE_CHECK_S else CHECK_INTERVAL_S
                )
                self._judge_stall(self._unanswered_s)
            checked_at = now

    def _tick(self) -> None:
        self._tick_asked = False

    def _judge_stall(self, seconds: float) -> None:
        if seconds < self._liveness.stall_warning:
            return
        if not self._warned:
            self._warned = True
            self._report_stall(seconds)
        if seconds > self._liveness.stall_limit:
            self._give_up(seconds)

    def _report_stall(self, seconds: float) -> None:
        attempt = find_attempt(self._worker_thread)
        logger.warning(
            "The event loop has been blocked for %.1f s by %s. "
            "Make the handler a plain def, or move the blocking call to a thread.",
            seconds,
            attempt or "code outside of any job",
        )
        self._events.emit(
            LoopStalled(
                seconds,
                attempt.job.task if attempt else None,
                str(attempt.job.id) if attempt else None,
            )
        )

    def _give_up(self, seconds: float) -> None:
        """Give up the lease because the loop is blocked for good, so that its jobs are rescued."""
        attempt = find_attempt(self._worker_thread)
        logger.critical(
            "The event loop has been blocked for %.0f s by %s; the lease is given up.",
            seconds,
            attempt or "code outside of any job",
        )
        dump_stacks()
        if self._liveness.exit_on_stall:
            self._on_exit()
            os._exit(EXIT_STALLED)
        self._given_up = True
        self.beat_soon()

    def _call_on_worker_loop(self, call: Callable[[], None]) -> None:
        if not self._worker_loop.is_closed():
            self._worker_loop.call_soon_threadsafe(call)
