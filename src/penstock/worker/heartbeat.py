"""The heartbeat: a thread with its own loop and its own connection.

A handler that blocks the worker's loop, or a pool that is used up, must not cost the worker its
lease. But a loop that is blocked for ever must: so the thread renews only while the loop has
ticked within the stall limit. And a thread that cannot reach the database gives the lease up
before it would expire, so that a cut-off worker stops its jobs before somebody else starts them.
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
from penstock.worker.whereabouts import attempt_in, dump_stacks

logger = logging.getLogger("penstock.heartbeat")

Signals = list[tuple[int, UUID, str]]
EXIT_STALLED = 70
LOOK = 0.5
# A look that comes later than this was kept waiting: the process was stopped or suspended.
LOOK_LATE = 1.0


class Heartbeat(threading.Thread):
    """Renews one lease until it is told to stop or the lease is lost.

    It calls `renewed` after the first beat, and after one that followed a failed beat, and
    `refused` after a beat that the database will go on refusing.
    """

    def __init__(
        self,
        url: str,
        store: Store,
        liveness: Liveness,
        events: Events,
        *,
        told: dict[str, Any],
        info: Callable[[], dict[str, Any]],
        signalled: Callable[[Signals], None],
        renewed: Callable[[], None],
        refused: Callable[[Exception], None],
        lapsed: Callable[[], None],
        exiting: Callable[[], object],
    ) -> None:
        super().__init__(name="penstock heartbeat", daemon=True)
        self._url = url
        self._store = store
        self._lease: int | None = None
        self._liveness = liveness
        self._events = events
        self._told = told
        self._info = info
        self._signalled = signalled
        self._on_renewed = renewed
        self._on_refused = refused
        self._lapsed = lapsed
        self._exiting = exiting
        self._worker_loop = asyncio.get_running_loop()
        self._worker_thread = threading.get_ident()
        self._tick_asked = False
        # How long the loop has owed us a tick, without the time in which this thread stood still.
        self._unanswered = 0.0
        self._warned = False
        self._reported: str | None = None
        self._given_up = False
        self._failed_beats = 0
        # Why the beats since the last renewal failed.
        self.failure: Exception | None = None
        self._is_proven = False
        self._is_silent = False
        # When we asked, not when we heard: the database began to count in between.
        self._renewed = float("inf")
        self._connected: Future[None] = Future()
        self._margin = min(liveness.heartbeat / 2, liveness.lease / 10)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.Event | None = None
        self._beating: asyncio.Task[None] | None = None
        self._stopping = False
        self._leaving = False

    # Called from the worker's loop

    async def connect(self) -> None:
        """Start the thread, and wait until it has its connection: a lease without one would end."""
        self.start()
        await asyncio.wrap_future(self._connected)

    def begin(self, lease: int, taken: float) -> None:
        """Renew a lease that was taken at that time, from now on."""
        self.name = f"penstock heartbeat {lease}"
        self._renewed, self._lease = taken, lease
        self.soon()

    def leave(self) -> None:
        """The lease is given back now: it is no news that it is gone."""
        self._leaving = True

    def soon(self) -> None:
        """Beat now: there may be a signal to fetch."""
        if self._wake is not None:
            self._call(self._wake.set)

    def cease(self) -> None:
        """Stop beating; the thread ends by itself."""
        self._stopping = True
        if self._beating is not None:
            # A beat may be under way that a frozen database does not answer.
            self._call(self._beating.cancel)

    async def halt(self, seconds: float) -> None:
        """Stop beating and wait for the thread, which is left alone if that takes longer."""
        self.cease()
        await asyncio.get_running_loop().run_in_executor(None, self.join, seconds)

    def _call(self, function: Callable[[], object]) -> None:
        """Call something in this thread's loop, if it has not ended."""
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
        if (connection := await self._first_connection()) is None:
            return
        watching = asyncio.create_task(self._watch())
        try:
            await self._beat_on(connection)
            # The loop is told that its lease is lost; one that is blocked for good never hears it.
            while not (self._stopping or self._leaving or self._given_up):
                if self._worker_loop.is_closed():
                    return
                await asyncio.sleep(LOOK)
        finally:
            watching.cancel()

    async def _first_connection(self) -> Connection | None:
        """The connection, once there is a lease to renew; None if there will be none."""
        try:
            connection = await connect(self._url, name="penstock heartbeat")
        except Exception as error:
            self._tell_connected(error)
            return None
        try:
            self._tell_connected(None)
            while self._lease is None and not self._worker_loop.is_closed():
                await self._rest(time.monotonic() + LOOK)
                if self._stopping:
                    break
        except asyncio.CancelledError:
            connection.terminate()
            raise
        if self._lease is not None:
            return connection
        connection.terminate()
        return None

    def _tell_connected(self, error: Exception | None) -> None:
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
                if self._is_over():
                    return
                await self._rest(min(began + self._pause(), self._deadline))
                if self._given_up:
                    self._post(self._lapsed)
                    return
        finally:
            if connection is not None:
                connection.terminate()

    async def _beat(self, connection: Connection | None) -> Connection | None:
        """Renew once; gives back the connection, or None if there is none that works."""
        assert self._lease is not None
        sent = time.monotonic()
        info = self._info()
        patience = self._patience(sent)
        try:
            async with asyncio.timeout(patience):
                connection = connection or await connect(
                    self._url, name="penstock heartbeat", timeout=patience
                )
                alive, signals = await self._store.heartbeat(
                    connection,
                    self._lease,
                    self._liveness.lease,
                    None if info == self._told else info,
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
            self._renewed = float("-inf")
            return connection
        self._renewed, self._told = sent, info
        self._reported = self.failure = None
        if not self._is_proven:
            self._is_proven = True
            self._post(self._on_renewed)
        if signals:
            self._post(lambda: self._signalled(signals))
        return connection

    @property
    def _deadline(self) -> float:
        """When the lease must be taken for lost, unless it is renewed before."""
        return self._renewed + self._liveness.lease - self._margin

    def _patience(self, now: float) -> float:
        """How long a beat may take: no answer must not keep us beyond the lease's own end."""
        longest = min(self._liveness.heartbeat, self._liveness.lease / 4, self._deadline - now)
        return max(longest, self._margin / 2)

    def _pause(self) -> float:
        """How long after a beat the next is due; a database that answers is asked less often."""
        if self.failure is None:
            return self._liveness.heartbeat
        if errors.is_unavailable(self.failure):
            return LOOK
        backoff = LOOK * 2.0 ** min(self._failed_beats, 16)
        return max(LOOK, min(backoff, self._liveness.heartbeat))

    def _is_over(self) -> bool:
        """Whether the lease is lost, or so near its end that it must be taken for lost."""
        if time.monotonic() < self._deadline:
            return False
        if self._stopping or self._leaving:
            return True
        logger.warning(
            "Lease %d is lost (%s); its jobs are stopped here.",
            self._lease,
            self._why_lost(),
        )
        self._post(self._lapsed)
        return True

    def _why_lost(self) -> str:
        if self.failure is None:
            return "it expired"
        if errors.is_lost(self.failure):
            return "the database could not be reached in time"
        return f"its last heartbeat failed: {errors.cause(self.failure)}"

    def _note_failure(self, error: Exception, seconds: float) -> None:
        """Tell of a beat that failed: once per error, not once per try."""
        self.failure, self._is_proven = error, False
        self._failed_beats += 1
        if errors.is_lost(error):
            self._note_silence(error, seconds)
        elif errors.is_permanent(error):
            self._post(lambda: self._on_refused(error))
        elif not errors.is_unavailable(error) and repr(error) != self._reported:
            # What keeps all services waiting is said by them.
            self._reported = repr(error)
            logger.exception("The heartbeat failed and is tried again.")

    def _note_silence(self, error: Exception, seconds: float) -> None:
        """Say once that the database does not answer; one broken connection is no news yet."""
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
        """Wait for the next beat."""
        assert self._wake is not None
        while not (self._stopping or self._given_up or self._wake.is_set()):
            left = until - time.monotonic()
            if left <= 0:
                break
            try:
                async with asyncio.timeout(min(left, LOOK)):
                    await self._wake.wait()
            except TimeoutError:
                continue
        self._wake.clear()

    # The worker's loop, seen from here

    async def _watch(self) -> None:
        """Ask the worker's loop for ticks, and judge it by how long it leaves one unanswered.

        After a pause of the whole process (SIGSTOP, a suspended laptop) the clock is far ahead, but
        the loop had no more chance to run than this thread: a late look counts as one on time.
        """
        looked = time.monotonic()
        while not (self._stopping or self._given_up):
            if not self._tick_asked:
                self._tick_asked, self._unanswered, self._warned = True, 0.0, False
                self._post(self._tick)
            await asyncio.sleep(LOOK)
            now = time.monotonic()
            if self._tick_asked:
                took = now - looked
                self._unanswered += took if took < LOOK + LOOK_LATE else LOOK
                self._judge_stall(self._unanswered)
            looked = now

    def _tick(self) -> None:
        self._tick_asked = False

    def _judge_stall(self, seconds: float) -> None:
        if seconds < self._liveness.stall_warning:
            return
        if not self._warned:
            self._warned = True
            self._name_the_guilty(seconds)
        if seconds > self._liveness.stall_limit:
            self._give_up(seconds)

    def _name_the_guilty(self, seconds: float) -> None:
        attempt = attempt_in(self._worker_thread)
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
        """The loop is blocked for good: let the lease go, so that its jobs are rescued."""
        attempt = attempt_in(self._worker_thread)
        logger.critical(
            "The event loop has been blocked for %.0f s by %s; the lease is given up.",
            seconds,
            attempt or "code outside of any job",
        )
        dump_stacks()
        if self._liveness.exit_on_stall:
            self._exiting()
            os._exit(EXIT_STALLED)
        self._given_up = True
        self.soon()

    def _post(self, call: Callable[[], None]) -> None:
        if not self._worker_loop.is_closed():
            self._worker_loop.call_soon_threadsafe(call)
