"""The phases of a stop: let jobs finish, cancel the rest, leave.

If that hangs, a hard end follows.
"""

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
from penstock.worker.whereabouts import describe_place, dump_stacks

hard_end_logger = logging.getLogger("penstock.work")

EXIT_CUT_SHORT = 71
CHECK_INTERVAL_S = 0.25
# A check that is this late was delayed because the process was stopped or suspended.
LATE_CHECK_S = 1.0
# The time to log what did not end, and to give back the lease.
REPORT_WAIT_S = 2.0


class HardEnd(threading.Thread):
    """Ends the process if a stop takes too long.

    `limit(n)` returns the seconds that the stop may take after the n-th signal, and `report` logs
    what still runs.
    """

    exit_code = EXIT_CUT_SHORT

    def __init__(self, limit: Callable[[int], float], report: Callable[[], object]) -> None:
        super().__init__(name="penstock hard end", daemon=True)
        self._limit = limit
        self._report = report
        self._lock = threading.Lock()
        self._deadline: float | None = None
        self._signals = 0
        self._signals_read = 0
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        os.set_blocking(self._writing, False)
        self._passed_on_to = -1
        self._numbers: frozenset[int] = frozenset()

    def listen(self, numbers: Collection[signal.Signals]) -> None:
        """Watch these signals. The event loop must handle them already, and still handles them."""
        self._numbers = frozenset(numbers)
        self._passed_on_to = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        self.start()

    def signalled(self, count: int) -> None:
        """Record how many signals have come so far.

        The event loop calls this as well, because other code may have replaced Python's only wakeup
        pipe for signals.
        """
        with self._lock:
            if count <= self._signals:
                return
            self._signals = count
        self.allow(self._limit(count))

    def allow(self, seconds: float) -> None:
        """Let the stop take these seconds from now on, but not longer than allowed before."""
        deadline = time.monotonic() + seconds
        with self._lock:
            if self._deadline is None or deadline < self._deadline:
                self._deadline = deadline
        with suppress(OSError):
            os.write(self._writing, b"\0")

    # The thread

    def run(self) -> None:
        while True:
            checked_at = time.monotonic()
            wait = None if self._deadline is None else CHECK_INTERVAL_S
            if select.select([self._reading], [], [], wait)[0]:
                self._read()
            now = time.monotonic()
            with self._lock:
                if (
                    wait is not None
                    and self._deadline is not None
                    and now - checked_at > LATE_CHECK_S
                ):
                    # The process stood still; everything in it gets that time back.
                    self._deadline += now - checked_at
                is_over = self._deadline is not None and now >= self._deadline
            if is_over:
                self._end()

    def _read(self) -> None:
        with suppress(OSError):
            signals = os.read(self._reading, 4096).replace(b"\0", b"")
            if signals and self._passed_on_to >= 0:
                os.write(self._passed_on_to, signals)
            self._signals_read += sum(number in self._numbers for number in signals)
        self.signalled(self._signals_read)

    def _end(self) -> None:
        # A log may be blocked, too: by whoever reads it, or by a lock that another thread holds.
        reporting = threading.Thread(target=self.last_words, name="penstock report", daemon=True)
        with suppress(RuntimeError):
            reporting.start()
            reporting.join(REPORT_WAIT_S)
        os._exit(self.exit_code)

    def last_words(self) -> None:
        """Log that the process ends now, and what still runs."""
        hard_end_logger.critical(
            "The stop exceeded its time limit, or a third signal arrived. The process exits now "
            "with code %d. Still running:",
            EXIT_CUT_SHORT,
        )
        dump_stacks()
        self._report()
        logging.shutdown()
        sys.stdout.flush()


logger = logging.getLogger("penstock.worker")

# However short the time to leave is, a running statement has this long to end: PgBouncer before
# 1.21 may crash when statements are cancelled.
STATEMENTS_END_S = 0.25
# The share of the time to leave that claims under way may take, at most.
CLAIMS_SHARE = 0.25
# The parts of leaving share its time. Each must be over after this share of it.
CHILDREN_SHARE = 0.5
OUTCOMES_SHARE = 0.75
LEASE_SHARE = 0.9
CLOSE_SHARE = 0.95


class Shutdown:
    """One stop of one worker. No job is lost: jobs that do not finish are given back."""

    def __init__(
        self,
        parts: Parts,
        pools: LocalPools,
        events: Events,
        stopping: Stopping,
        hurry: asyncio.Event,
        allow: Callable[[float], None],
    ) -> None:
        self._parts = parts
        self._pools = pools
        self._events = events
        self._stopping = stopping
        self._hurry = hurry
        # Called at each step with how long the rest of the stop may take.
        self._allow = allow
        # When the phases should be over. Time spent beyond that is taken from the time to leave.
        self._due = time.monotonic()

    async def run(self, pool: Pool) -> None:
        parts, stopping = self._parts, self._stopping
        parts.stop_starting()
        self._allow(stopping.limit(has_pools=self._pools.is_used))
        claims = (*parts.scanners.values(), *parts.claimers.values())
        await wait_at_most(max(CLAIMS_SHARE * stopping.leave, STATEMENTS_END_S), _stop_all(claims))
        parts.dispatcher.release_unstarted()
        await self._settle_pools()
        await self._finish_jobs("finish", stopping.finish)
        parts.dispatcher.stop_all("shutdown")
        self._allow(stopping.limit(signals=2, has_pools=self._pools.is_used))
        await self._finish_jobs("cancel", stopping.cancel)
        # Wait once more: jobs that were ending have submitted calls, too.
        await self._settle_pools()
        self._allow(stopping.leave)
        await self._leave(pool)

    async def _settle_pools(self) -> None:
        """Wait for the calls in local pools.

        The pools belong to the app, and stay open after this worker has ended.
        """
        if calls := self._pools.calls:
            seconds = self._stopping.pool
            logger.info(
                "The worker is stopping and waits for calls in local pools: %d (at most %g s).",
                calls,
                seconds,
            )
            await self._phase("pool", calls, self._pools.settle(seconds), seconds)

    async def _finish_jobs(self, phase: str, seconds: float) -> None:
        if running := len(self._parts.dispatcher.running):
            logger.info(
                "The worker is stopping and waits for running jobs: %d (phase %s, at most %g s).",
                running,
                phase,
                seconds,
            )
            await self._phase(phase, running, self._parts.dispatcher.wait_until_idle(), seconds)

    async def _phase(
        self, name: str, running: int, ended: Coroutine[Any, Any, None], seconds: float
    ) -> None:
        """Wait until a phase's work has ended, its time is over, or somebody hurries the stop."""
        self._events.emit(WorkerStopping(name, running))
        waits = [asyncio.ensure_future(ended), asyncio.ensure_future(self._hurry.wait())]
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        await cancel_and_leave(*waits)
        self._hurry.clear()
        self._due = min(time.monotonic(), self._due + seconds)

    async def _leave(self, pool: Pool) -> None:
        """Write outcomes, give back the lease, and close everything."""
        parts = self._parts
        self._end = min(time.monotonic(), self._due) + self._stopping.leave
        for attempt in parts.dispatcher.running.values():
            logger.error(
                "%r did not stop in time; it is given back and may run twice. It is at %s.",
                attempt,
                describe_place(attempt.future),
            )
        await self._do_part("child processes", CHILDREN_SHARE, parts.child_pool.close())
        # Users' resources may close meanwhile: the jobs that used them are over.
        closing = asyncio.ensure_future(
            self._do_part("resources", CLOSE_SHARE, parts.resources.close())
        )
        services = (
            parts.progress,
            parts.budget_writer,
            parts.reconciler,
            parts.rules_reader,
            parts.limit_keeper,
            parts.mover,
            parts.suspects,
        )
        await asyncio.gather(
            self._do_part("outcomes", LEASE_SHARE, self._write_outcomes()),
            self._do_part("services", OUTCOMES_SHARE, _stop_all(services), STATEMENTS_END_S),
            self._do_part(
                "maintenance", OUTCOMES_SHARE, parts.maintenance.stop(), STATEMENTS_END_S
            ),
        )
        await self._give_up_lease()
        await asyncio.gather(
            closing,
            self._do_part("listener", CLOSE_SHARE, parts.listener.stop()),
            self._do_part(
                "heartbeat",
                CLOSE_SHARE,
                parts.lease_keeper.stop_heartbeats(self._left(CLOSE_SHARE)),
            ),
        )
        parts.executor.close()
        if not await self._do_part("database connections", 1.0, pool.close()):
            pool.terminate()
            await asyncio.sleep(0)  # Lets asyncpg finish with the broken transports.

    async def _write_outcomes(self) -> None:
        await self._parts.settler.close(self._left(OUTCOMES_SHARE))
        self._parts.note_unwritten()

    async def _give_up_lease(self) -> None:
        """Give back the lease if the database answers; otherwise the lease expires."""
        try:
            if await self._ends_in_time(LEASE_SHARE, self._close_lease()):
                return
            why = "the database did not answer in time"
        except Exception as error:
            why = errors.cause(error)
        logger.warning("The lease could not be given back, so it will expire: %s.", why)

    async def _close_lease(self) -> None:
        parts = self._parts
        await parts.progress.flush()
        await parts.limit_keeper.flush()
        # If this fails, the lease must expire: closing it would count no loss.
        await parts.settler.give_up()
        await parts.lease_keeper.close()

    def _left(self, share: float = 1.0) -> float:
        """Return the seconds that are left until this share of the time to leave is over."""
        end = self._end - (1.0 - share) * self._stopping.leave
        return max(end - time.monotonic(), 0.0)

    async def _ends_in_time(
        self, share: float, work: Coroutine[Any, Any, object], least: float = 0.0
    ) -> bool:
        """Run work within a share of the time to leave, or within `least` seconds if that is more.

        Return whether the work ended in time. Its cancellation may take a moment more, but not
        longer than the whole time to leave.
        """
        seconds = max(self._left(share), least)
        cancel = max(0.0, min(CANCEL_S, self._left() - seconds))
        return await wait_at_most(seconds, work, cancel=cancel)

    async def _do_part(
        self, name: str, share: float, work: Coroutine[Any, Any, object], least: float = 0.0
    ) -> bool:
        """Do one part of leaving, and return whether it ended in time.

        The other parts do not depend on this one, so its errors are only logged.
        """
        try:
            has_ended = await self._ends_in_time(share, work, least)
        except Exception:
            logger.exception("The worker's %s could not be closed.", name)
            return False
        if not has_ended:
            logger.warning("The worker's %s did not close in time; the stop goes on.", name)
        return has_ended


async def _stop_all(services: Iterable[Service]) -> None:
    await asyncio.gather(*(service.stop() for service in services))
