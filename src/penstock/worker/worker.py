"""A worker: claims jobs, runs them, settles them, and keeps the queues in order."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import ClassVar, Self

from penstock.config import JobLog, Liveness, Pace, Stopping, Upkeep
from penstock.connect.connector import TRY_AGAIN, Connector
from penstock.errors import PenstockError, StartTimeout
from penstock.local_pool import LocalPools
from penstock.migrate.rights import check_worker
from penstock.store import errors
from penstock.tasks import Registry, Timetable
from penstock.telemetry import Events
from penstock.worker.children.pool import parse_children
from penstock.worker.claim.claimer import Quota
from penstock.worker.claim.queue import QueueState
from penstock.worker.drain import run_until_drained
from penstock.worker.limits.slots import DEFAULT_SLOTS, parse_queues
from penstock.worker.parts import Parts
from penstock.worker.room import retry_while_full
from penstock.worker.run.resources import Resources
from penstock.worker.settle.report import Tally
from penstock.worker.stop import Shutdown
from penstock.worker.tenants import ALL, TenantFilter
from penstock.worker.timing import DEFAULT_TIMING
from penstock.worker.whereabouts import describe_place, find_attempt

logger = logging.getLogger("penstock.worker")

# How long to wait for schedules to be written: a transaction that stays open and edits one must not
# keep a worker from starting.
SCHEDULES_WAIT_S = 5.0
NO_TASKS = (
    "Worker %s knows no task, so it can run no job. Import the modules that have the app's tasks "
    "before the worker starts, or register them with app.include."
)
# How long giving back the lease may take when the process ends at once.
GIVE_BACK_TIMEOUT_S = 1.0


class Worker:
    """Runs the jobs of some queues in this process.

    async with app.worker(queues={"documents": 50}):
        ...                                  # works until the block ends

    tally = await app.worker().drain()       # works off what there is
    """

    # How many connections its statements share, besides those of heartbeat and listener.
    _pool_size: ClassVar[int] = 5

    def __init__(
        self,
        link: Connector,
        tasks: Registry,
        events: Events,
        resources: Resources,
        timetable: Timetable,
        pools: LocalPools,
        *,
        queues: Mapping[str, int] | Iterable[str] | str | Callable[[int], Mapping[str, int]],
        tenants: TenantFilter = ALL,
        name: str | None,
        liveness: Liveness,
        pace: Pace,
        stopping: Stopping,
        upkeep: Upkeep,
        log: JobLog | None = None,
        children: int | None = None,
        scheduled: Callable[[], Awaitable[Collection[str]]] | None = None,
    ) -> None:
        """`scheduled` returns the queues of the database's schedules.

        The worker serves these queues as well.
        """
        self._scheduled = scheduled
        self._link = link
        self._tasks = tasks
        self._events = events
        self._resources = resources
        self._timetable = timetable
        self._pools = pools
        self._liveness = liveness
        self._pace = pace
        self._stopping = stopping
        self._upkeep = upkeep
        self._timing = DEFAULT_TIMING
        self._log = log or JobLog()
        self._children = parse_children(children)
        self.name = name or f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(2)}"
        self._queues = queues if callable(queues) else parse_queues(queues)
        # Set at the start: until then a module may still register tasks.
        self.states: dict[str, QueueState] = {}
        self.tenants = tenants
        self.tally = Tally()
        self._hurry_event = asyncio.Event()
        self._stop_asked = asyncio.Event()
        self._parts: Parts | None = None
        self._stop: asyncio.Task[None] | None = None
        self._thread_id = 0
        # Called with how long the rest of the stop may take, whenever that is known better.
        self.on_stop: Callable[[float], None] = lambda _: None

    # Lifecycle

    async def start(self, *, limit: int | None = None) -> None:
        """Take a lease and begin to claim. The worker never takes more than `limit` jobs.

        Raises StartTimeout if it gets no lease within `Liveness(start_wait=60)` seconds, for
        example on a standby. If the server is at its connection limit, the worker retries for the
        same time, with one warning.
        """
        await self._start(limit, self._liveness.start_wait)

    async def _start(self, limit: int | None, lease_wait: float | None) -> None:
        if self._parts is not None:
            raise RuntimeError(f"Worker {self.name} has been started already.")
        self._tasks.check()
        self.states = self._make_states()
        self._thread_id = threading.get_ident()
        began = time.monotonic()

        def seconds_left() -> float | None:
            return None if lease_wait is None else max(began + lease_wait - time.monotonic(), 0.0)

        await self._ask_within(self._link.open, seconds_left())
        await self._ask_within(self._add_scheduled, seconds_left())
        self._pool = await self._link.open_another(size=self._pool_size, name="penstock worker")
        self._parts = parts = self._make_parts(Quota(limit))
        try:
            parts.resources.start()
            await parts.resources.wait_until_tried(self._timing.resources_wait)
            schema, place = self._link.store.schema, self._link.database.place
            check = partial(check_worker, self._pool, schema, place)
            await self._ask_within(check, seconds_left())
            await self._ask_within(parts.rules_reader.read, seconds_left())
            for service in parts.services:
                service.start()
            await parts.lease_keeper.wait_for_first_lease(seconds_left())
            await parts.maintenance.scheduler.wait_until_declared(SCHEDULES_WAIT_S)
        except BaseException as error:
            start_error = await self._explain_start_error(error)
            await self.stop()
            if start_error is not None:
                raise start_error from error
            raise
        logger.info("Worker %s serves %s.", self.name, ", ".join(self.states))
        if not len(self._tasks):
            logger.warning(NO_TASKS, self.name)

    def _make_states(self) -> dict[str, QueueState]:
        queues = (
            parse_queues(self._queues(self._children)) if callable(self._queues) else self._queues
        )
        return {
            queue: self.states.get(queue) or self._make_state(queue, slots)
            for queue, slots in queues.items()
        }

    def _make_state(self, queue: str, slots: int) -> QueueState:
        # A queue holds up to two claims' worth: the next is under way while the last is worked off.
        return QueueState(queue, slots, 2 * self._pace.claim_most, self.tenants, self._timing)

    async def _add_scheduled(self) -> None:
        """Serve the queues of the database's schedules as well, if no queues were chosen."""
        try:
            names = await self._scheduled() if self._scheduled else ()
        except PenstockError as error:
            logger.debug("The queues of schedules could not be read: %s", error)
            return  # The checks that follow report what is wrong with the database.
        for queue in sorted(set(names) - self.states.keys()):
            self.states[queue] = self._make_state(queue, DEFAULT_SLOTS)

    async def _ask_within(
        self, ask: Callable[[], Awaitable[object]], seconds: float | None
    ) -> None:
        """Call `ask` at the worker's start, and raise if it takes longer than these seconds.

        A database that hangs would never answer.
        """
        limit, refusal = asyncio.timeout(seconds), None

        def full(error: Exception) -> None:
            nonlocal refusal
            refusal = error
            self._link.close_idle()

        try:
            async with limit:
                await retry_while_full(
                    ask, self._events, seconds, full, retry=self._timing.connection_retry
                )
        except TimeoutError:
            if not limit.expired():
                raise
            if refusal is not None:
                raise refusal from None
            start_wait = self._liveness.start_wait
            late = TimeoutError(f"no answer within {start_wait:g} s")
            place = self._link.database.place
            raise StartTimeout(self.name, start_wait, late, place=place) from late

    async def _explain_start_error(self, error: BaseException) -> PenstockError | None:
        """Return Penstock's error for what went wrong in the database at the start, or None."""
        if errors.is_refused(error):
            return await self._link.permission_error(error, self._pool)
        if isinstance(error, Exception):
            return self._link.translate_error(error, TRY_AGAIN, is_sent=False)
        return None

    def _make_parts(self, quota: Quota) -> Parts:
        return Parts(
            self._link,
            self._pool,
            self._tasks,
            self._events,
            self._resources,
            self._timetable,
            name=self.name,
            states=self.states,
            tenants=self.tenants,
            quota=quota,
            tally=self.tally,
            liveness=self._liveness,
            pace=self._pace,
            upkeep=self._upkeep,
            log=self._log,
            children=self._children,
            timing=self._timing,
        )

    async def stop(self) -> None:
        """Stop claiming, let jobs finish, cancel jobs that do not finish in time, and leave.

        No job is lost. Before and after the jobs, the stop waits for calls in the app's local
        pools.
        """
        if self._parts is not None and self._stop is None:
            self._stop = asyncio.create_task(self._shut_down(self._parts), name="penstock stop")
        if self._stop is not None:
            # A caller that stops waiting must not leave half a worker behind.
            await asyncio.shield(self._stop)

    async def _shut_down(self, parts: Parts) -> None:
        try:
            shutdown = Shutdown(
                parts, self._pools, self._events, self._stopping, self._hurry_event, self.on_stop
            )
            await shutdown.run(self._pool)
        finally:
            if parts.lines is not None:
                parts.lines.close()
            self._parts = self._stop = None
        logger.info("Worker %s has stopped: %r.", self.name, self.tally)

    def hurry(self) -> None:
        """End the present phase of the stop now."""
        self._hurry_event.set()

    def ask_to_stop(self) -> None:
        """Ask the worker to stop, and hurry the stop at a second call. For signal handlers."""
        if self._stop_asked.is_set():
            self.hurry()
        self._stop_asked.set()
        if self._parts is not None:
            self._parts.stop_starting()

    def stop_limit(self, signals: int) -> float:
        """Return how many seconds a stop may take after this many signals."""
        return self._stopping.limit(signals=signals, has_pools=self._pools.is_used)

    def last_words(self) -> None:
        """Log which jobs still run and which outcomes are unwritten, and give back the lease.

        This is called in another thread when the process is about to end. The event loop may be
        blocked.
        """
        if (parts := self._parts) is None:
            return
        if (blocking := find_attempt(self._thread_id)) is not None:
            logger.critical("The event loop is blocked by %r.", blocking)
        for attempt in list(parts.dispatcher.running.values()):
            logger.critical("%r is still running, at %s.", attempt, describe_place(attempt.future))
        unwritten = parts.settler.report_before_exit()
        try:
            given_back = parts.lease_keeper.give_back(unwritten, "The worker's process ended.")
            asyncio.run(asyncio.wait_for(given_back, GIVE_BACK_TIMEOUT_S))
        except Exception as error:
            logger.warning("The lease could not be given back, so it will expire: %r", error)

    async def run(self, started: Callable[[], object] | None = None) -> None:
        """Work until `ask_to_stop` is called. Call `started` once the worker has its lease.

        The worker waits for a lease as long as necessary, for example until a standby is promoted.
        """
        try:
            if await self._start_unless_asked_to_stop(None, None):
                if started is not None:
                    started()
                await self._stop_asked.wait()
        finally:
            await self.stop()

    async def _start_unless_asked_to_stop(
        self, limit: int | None, lease_wait: float | None
    ) -> bool:
        """Start, unless `ask_to_stop` interrupts that. Return whether the worker has started."""
        starting = asyncio.create_task(self._start(limit, lease_wait))
        asked = asyncio.create_task(self._stop_asked.wait())
        try:
            await asyncio.wait([starting, asked], return_when=asyncio.FIRST_COMPLETED)
        finally:
            asked.cancel()
            if not starting.done():
                starting.cancel()
                await asyncio.wait([starting])
        if starting.cancelled():
            return False
        starting.result()
        return True

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    # Drain

    async def drain(
        self, *, limit: int | None = None, seconds: float | timedelta | None = None
    ) -> Tally:
        """Run the jobs that are ready, at most `limit` and within `seconds`, and then stop.

        The drain includes jobs that become due meanwhile, and calls in the app's local pools. It is
        for hosts where cron starts the worker, and for tests. If the database refuses to write
        outcomes, the drain ends after `Pace(unwritten_retry=30)` seconds, and `Tally.unwritten`
        counts these outcomes.
        """
        length = seconds.total_seconds() if isinstance(seconds, timedelta) else seconds
        if not await self._start_unless_asked_to_stop(limit, self._liveness.start_wait):
            return self.tally
        assert self._parts is not None
        ends = [
            asyncio.ensure_future(
                run_until_drained(
                    self._parts, self._pools, self._stopping.pool, self._timing.batch_wait
                )
            ),
            asyncio.ensure_future(self._stop_asked.wait()),
        ]
        try:
            done, _ = await asyncio.wait(ends, timeout=length, return_when=asyncio.FIRST_COMPLETED)
            for end in done:
                end.result()
        finally:
            for end in ends:
                end.cancel()
            await asyncio.gather(*ends, return_exceptions=True)
            await self.stop()
        return self.tally
