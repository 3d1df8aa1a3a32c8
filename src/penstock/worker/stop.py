"""The phases of a stop: let jobs finish, cancel the rest, leave; and a hard end if that hangs."""

from __future__ import annotations

import asyncio
import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Coroutine, Iterable
from contextlib import suppress
from typing import Any

from penstock.config import Stopping
from penstock.lifecycle import CANCEL_S, Service, cancel_and_leave, wait_at_most
from penstock.local_pool import LocalPools
from penstock.store import Pool, errors
from penstock.telemetry import Events, WorkerStopping
from penstock.worker.parts import Parts
from penstock.worker.whereabouts import dump_stacks, where

logger_hard_end = logging.getLogger("penstock.work")

EXIT_CUT_SHORT = 71
LOOK = 0.25
# A look that comes later than this was kept waiting: the process was stopped or suspended.
LOOK_LATE = 1.0
# To say what did not end, and to give back the lease.
REPORT_WAIT = 2.0


class HardEnd(threading.Thread):
    """`limit(n)` says how long the stop may take after the n-th signal, `report` what goes on."""

    exit_code = EXIT_CUT_SHORT

    def __init__(self, limit: Callable[[int], float], report: Callable[[], object]) -> None:
        super().__init__(name="penstock hard end", daemon=True)
        self._limit = limit
        self._report = report
        self._lock = threading.Lock()
        self._deadline: float | None = None
        self._signals = 0
        self._heard = 0
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        os.set_blocking(self._writing, False)
        self._passed_on_to = -1
        self._numbers: frozenset[int] = frozenset()

    def listen(self, numbers: Collection[signal.Signals]) -> None:
        """Hear of these signals, which the event loop must handle already; it still does."""
        self._numbers = frozenset(numbers)
        self._passed_on_to = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        self.start()

    def signalled(self, count: int) -> None:
        """So many signals have come so far. The event loop tells this, too: somebody may have taken
        Python's only pipe for signals away."""
        with self._lock:
            if count <= self._signals:
                return
            self._signals = count
        self.allow(self._limit(count))

    def allow(self, seconds: float) -> None:
        """The stop may take so long from now on, but not longer than was said before."""
        deadline = time.monotonic() + seconds
        with self._lock:
            if self._deadline is None or deadline < self._deadline:
                self._deadline = deadline
        with suppress(OSError):
            os.write(self._writing, b"\0")

    # The thread

    def run(self) -> None:
        while True:
            looked = time.monotonic()
            wait = None if self._deadline is None else LOOK
            if select.select([self._reading], [], [], wait)[0]:
                self._read()
            now = time.monotonic()
            with self._lock:
                if wait is not None and self._deadline is not None and now - looked > LOOK_LATE:
                    # The process stood still; now everything in it gets its time.
                    self._deadline += now - looked
                is_over = self._deadline is not None and now >= self._deadline
            if is_over:
                self._end()

    def _read(self) -> None:
        with suppress(OSError):
            signals = os.read(self._reading, 4096).replace(b"\0", b"")
            if signals and self._passed_on_to >= 0:
                os.write(self._passed_on_to, signals)
            self._heard += sum(number in self._numbers for number in signals)
        self.signalled(self._heard)

    def _end(self) -> None:
        # A log may be blocked, too: whoever reads it, or a lock that another thread has.
        reporting = threading.Thread(target=self.last_words, name="penstock report", daemon=True)
        with suppress(RuntimeError):
            reporting.start()
            reporting.join(REPORT_WAIT)
        os._exit(self.exit_code)

    def last_words(self) -> None:
        """Say that the process ends now, and what still runs."""
        logger_hard_end.critical(
            "The stop exceeded its time limit, or a third signal arrived. The process exits now "
            "with code %d. Still running:",
            EXIT_CUT_SHORT,
        )
        dump_stacks()
        self._report()
        logging.shutdown()
        sys.stdout.flush()


logger_shutdown = logging.getLogger("penstock.worker")

# However short the time to leave is, a statement under way has this long to end: PgBouncer before
# 1.21 may crash when statements are broken off.
STATEMENTS_END_S = 0.25
# The share of the time to leave that claims under way may take, at most.
CLAIMS_ENDED = 0.25
# The parts of leaving share its time: each must be over after this share of it.
CHILDREN_GONE = 0.5
OUTCOMES_WRITTEN = 0.75
LEASE_GIVEN_BACK = 0.9
ALL_CLOSED = 0.95


class Shutdown:
    """One stop of one worker. Nothing is lost: what does not finish is given back."""

    def __init__(
        self,
        crew: Parts,
        pools: LocalPools,
        events: Events,
        stopping: Stopping,
        hurry: asyncio.Event,
        allow: Callable[[float], None],
    ) -> None:
        self._crew = crew
        self._pools = pools
        self._events = events
        self._stopping = stopping
        self._hurry = hurry
        # Told at each step how long the rest of the stop may take.
        self._allow = allow
        # What has been spent beyond the phases: it is taken from the time to leave.
        self._due = time.monotonic()

    async def run(self, pool: Pool) -> None:
        crew, stopping = self._crew, self._stopping
        crew.begin_nothing()
        self._allow(stopping.limit(has_pools=self._pools.is_used))
        claims = (*crew.scanners.values(), *crew.claimers.values())
        await wait_at_most(max(CLAIMS_ENDED * stopping.leave, STATEMENTS_END_S), _stopped(claims))
        crew.dispatcher.release_unstarted()
        await self._settle_pools()
        await self._finish_jobs("finish", stopping.finish)
        crew.dispatcher.stop_all("shutdown")
        self._allow(stopping.limit(signals=2, has_pools=self._pools.is_used))
        await self._finish_jobs("cancel", stopping.cancel)
        # Once more: jobs that were about to end have submitted calls, too.
        await self._settle_pools()
        self._allow(stopping.leave)
        await self._leave(pool)

    async def _settle_pools(self) -> None:
        """Wait for what local pools have. They are the app's, and go on after this worker."""
        if calls := self._pools.calls:
            seconds = self._stopping.pool
            logger_shutdown.info("Stopping (calls in local pools: %d): up to %g s.", calls, seconds)
            await self._phase("pool", calls, self._pools.settle(seconds), seconds)

    async def _finish_jobs(self, phase: str, seconds: float) -> None:
        if running := len(self._crew.dispatcher.running):
            logger_shutdown.info(
                "Stopping (jobs that run: %d): phase %s, up to %g s.", running, phase, seconds
            )
            await self._phase(phase, running, self._crew.dispatcher.wait_until_idle(), seconds)

    async def _phase(
        self, name: str, running: int, ended: Coroutine[Any, Any, None], seconds: float
    ) -> None:
        """Wait for what runs, unless somebody is in a hurry."""
        self._events.emit(WorkerStopping(name, running))
        waits = [asyncio.ensure_future(ended), asyncio.ensure_future(self._hurry.wait())]
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        await cancel_and_leave(*waits)
        self._hurry.clear()
        self._due = min(time.monotonic(), self._due + seconds)

    async def _leave(self, pool: Pool) -> None:
        """Write outcomes, give back the lease, close everything."""
        crew = self._crew
        self._end = min(time.monotonic(), self._due) + self._stopping.leave
        for attempt in crew.dispatcher.running.values():
            logger_shutdown.error(
                "%r did not stop in time; it is given back and may run twice. It is at %s.",
                attempt,
                where(attempt.future),
            )
        await self._part("child processes", CHILDREN_GONE, crew.isolation.close())
        # What users have opened may close meanwhile: their jobs are over.
        closing = asyncio.ensure_future(self._part("resources", ALL_CLOSED, crew.resources.close()))
        idle = (
            crew.progress,
            crew.budget_writer,
            crew.reconciler,
            crew.rules_reader,
            crew.limit_keeper,
            crew.mover,
            crew.suspects,
        )
        await asyncio.gather(
            self._part("outcomes", LEASE_GIVEN_BACK, self._write_outcomes()),
            self._part("services", OUTCOMES_WRITTEN, _stopped(idle), STATEMENTS_END_S),
            self._part("maintenance", OUTCOMES_WRITTEN, crew.maintenance.stop(), STATEMENTS_END_S),
        )
        await self._give_up_lease()
        await asyncio.gather(
            closing,
            self._part("listener", ALL_CLOSED, crew.listener.stop()),
            self._part("heartbeat", ALL_CLOSED, crew.lease_keeper.abandon(self._left(ALL_CLOSED))),
        )
        crew.executor.close()
        if not await self._part("database connections", 1.0, pool.close()):
            pool.terminate()
            await asyncio.sleep(0)  # Lets asyncpg finish with the broken transports.

    async def _write_outcomes(self) -> None:
        await self._crew.settler.close(self._left(OUTCOMES_WRITTEN))
        self._crew.note_unwritten()

    async def _give_up_lease(self) -> None:
        """Tell the database, if it listens; otherwise the lease runs out."""
        try:
            if await self._ends(LEASE_GIVEN_BACK, self._close_lease()):
                return
            why = "the database did not answer in time"
        except Exception as error:
            why = errors.cause(error)
        logger_shutdown.warning("The lease could not be given back, it will expire: %s.", why)

    async def _close_lease(self) -> None:
        crew = self._crew
        await crew.progress.flush()
        await crew.limit_keeper.flush()
        # If this fails, the lease has to run out: to close it would count no loss.
        await crew.settler.give_up()
        await crew.lease_keeper.close()

    def _left(self, share: float = 1.0) -> float:
        """The seconds until a share of the time to leave is over."""
        end = self._end - (1.0 - share) * self._stopping.leave
        return max(end - time.monotonic(), 0.0)

    async def _ends(
        self, share: float, work: Coroutine[Any, Any, object], least: float = 0.0
    ) -> bool:
        """Whether work ends within a share of the time to leave, or the least that it needs. Its
        cancellation may take a moment more, but not longer than the whole time."""
        seconds = max(self._left(share), least)
        cancel = max(0.0, min(CANCEL_S, self._left() - seconds))
        return await wait_at_most(seconds, work, cancel=cancel)

    async def _part(
        self, name: str, share: float, work: Coroutine[Any, Any, object], least: float = 0.0
    ) -> bool:
        """Do a part of leaving; whether it has ended in time. The others do not depend on it."""
        try:
            has_ended = await self._ends(share, work, least)
        except Exception:
            logger_shutdown.exception("The worker's %s could not be closed.", name)
            return False
        if not has_ended:
            logger_shutdown.warning(
                "The worker's %s did not close in time; the stop goes on.", name
            )
        return has_ended


async def _stopped(services: Iterable[Service]) -> None:
    await asyncio.gather(*(service.stop() for service in services))
