"""A worker: claims jobs, runs them, settles them, and keeps the queue in order meanwhile."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import secrets
import socket
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self

from penstock.client import Link
from penstock.config import Liveness, Pace, Stopping, Upkeep
from penstock.events import (
    Events,
    JobFinished,
    LeaseLapsed,
    SettleRefused,
    WorkerStopping,
)
from penstock.lifecycle import Budget, Health, Service
from penstock.maintenance import Maintenance
from penstock.store import Answer, Pool, Settlement, open_pool
from penstock.tasks import Registry
from penstock.worker.claimer import Claimer, Scanner
from penstock.worker.completer import Completer
from penstock.worker.dispatcher import Dispatcher
from penstock.worker.executor import Executor
from penstock.worker.heartbeat import Signals
from penstock.worker.listener import Listener
from penstock.worker.progress import Progress
from penstock.worker.queue_state import QueueState
from penstock.worker.quota import Quota
from penstock.worker.reconciler import Reconciler
from penstock.worker.resources import Opened, Resources
from penstock.worker.run import Run
from penstock.worker.session import Session
from penstock.worker.slots import slots_of
from penstock.worker.tally import Tally

logger = logging.getLogger("penstock.worker")

POOL = 5
CLOSE_WAIT = 10.0


class Worker:
    """Runs the jobs of some queues in this process.

    async with app.worker(queues={"documents": 50}):
        ...                                  # works until the block ends

    tally = await app.worker().drain()       # works off what there is
    """

    def __init__(
        self,
        link: Link,
        tasks: Registry,
        events: Events,
        resources: Resources,
        *,
        queues: Mapping[str, int] | Iterable[str] | str,
        name: str | None,
        liveness: Liveness,
        pace: Pace,
        stopping: Stopping,
        upkeep: Upkeep,
    ) -> None:
        self._link = link
        self._store = link.store
        self._tasks = tasks
        self._events = events
        self._resources = resources
        self._liveness = liveness
        self._pace = pace
        self._stopping = stopping
        self._upkeep = upkeep
        self.name = name or f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(2)}"
        self.states = {
            queue: QueueState(queue, slots, pace.claim_most)
            for queue, slots in slots_of(queues).items()
        }
        self.tally = Tally()
        self._hurried = asyncio.Event()
        self._stop_asked = asyncio.Event()
        self._pool: Pool | None = None

    # Lifecycle

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

    async def start(self, *, limit: int | None = None) -> None:
        """Take a lease and begin to claim; `limit` is the most jobs it will ever take."""
        self._tasks.check()
        await self._link.pool()
        self._pool = await open_pool(self._link.url, size=POOL, name="penstock worker")
        self._assemble(self._pool, Quota(limit))
        await self._opened.tick()
        for service in self._services:
            service.start()
        await self._session.held()
        logger.info("Worker %s serves %s.", self.name, ", ".join(self.states))

    def _assemble(self, pool: Pool, quota: Quota) -> None:
        """Make the parts and say who tells whom."""
        store, events, url = self._store, self._events, self._link.url
        self._quota = quota
        self._health = health = Health(events)
        self._opened = Opened(self._resources, health)
        self._progress = Progress(pool, store, health)
        self._completer = Completer(
            pool,
            store,
            health,
            settled=self._settled,
            refused=self._refused,
            flushed=self._make_room,
        )
        self._executor = Executor(
            self._tasks,
            store,
            self._opened,
            self._progress,
            self._completer.submit,
            worker=self.name,
            threads=self._pace.threads,
            park_limit=self._upkeep.park_limit,
        )
        self._dispatcher = Dispatcher(
            self._executor, self.states.values(), self._wants, self._upkeep.isolation_wait
        )
        self._session = Session(
            url, pool, store, health, events, self._liveness, worker=self.name, info=self._info()
        )
        self._listener = Listener(url, store, health)
        self._reconciler = Reconciler(
            pool, store, self._session, health, self._known, self._pace.reconcile
        )
        self._claimers = {
            name: Claimer(
                state,
                pool,
                store,
                self._session,
                health,
                events,
                quota=quota,
                most=self._pace.claim_most,
                has_room=self._has_room,
                deliver=self._dispatcher.pump,
            )
            for name, state in self.states.items()
        }
        self._scanners = {
            name: Scanner(
                state,
                pool,
                store,
                health,
                pause=self._scan_pause,
                found=self._claimers[name].wake,
            )
            for name, state in self.states.items()
        }
        self._maintenance = Maintenance(
            url, pool, store, health, events, self._session.held, self._upkeep
        )
        self._connect_parts()

    def _connect_parts(self) -> None:
        self._session.on_signals = self._signalled
        self._session.on_lapse = self._lapsed
        self._session.on_doubt = self._reconciler.wake
        self._listener.on_ready = self._heard_ready
        self._listener.on_due = self._maintenance.promoter.due
        self._listener.on_signal = self._session.beat_soon
        self._listener.on_leader = self._maintenance.elector.wake
        self._listener.on_reconnect = self._look_around

    @property
    def _services(self) -> list[Service]:
        return [
            self._opened,
            self._session,
            self._listener,
            self._progress,
            self._reconciler,
            *self._scanners.values(),
            *self._claimers.values(),
            *self._maintenance.services,
        ]

    def _info(self) -> dict[str, Any]:
        return {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "python": platform.python_version(),
            "queues": {name: state.slots.limit for name, state in self.states.items()},
            "tasks": self._tasks.names(),
        }

    # Stop, in three phases

    async def stop(self) -> None:
        """Stop claiming and let jobs finish; cancel those that do not; leave. Nothing is lost."""
        if self._pool is None:
            return
        pool, self._pool = self._pool, None
        self._quota.closed = True
        for service in (*self._scanners.values(), *self._claimers.values()):
            await service.stop()
        self._dispatcher.give_back()
        await self._phase("finish", self._stopping.finish)
        self._dispatcher.stop_all("shutdown")
        await self._phase("cancel", self._stopping.cancel)
        await self._leave(pool)

    async def _phase(self, name: str, seconds: float) -> None:
        """Wait for the running jobs, unless somebody is in a hurry."""
        running = len(self._dispatcher.running)
        if not running:
            return
        self._events.emit(WorkerStopping(name, running))
        logger.info("Stopping: %d jobs run; phase %s, up to %g s.", running, name, seconds)
        self._hurried.clear()
        waits = [
            asyncio.ensure_future(self._dispatcher.drained()),
            asyncio.ensure_future(self._hurried.wait()),
        ]
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()

    async def _leave(self, pool: Pool) -> None:
        for run in self._dispatcher.running.values():
            logger.error("%r did not stop in time; it is given back and may run twice.", run)
        await self._completer.close(CLOSE_WAIT)
        try:
            async with asyncio.timeout(CLOSE_WAIT):
                await self._progress.stop()
                await self._progress.flush()
                await self._reconciler.stop()
                await self._maintenance.stop()
                await self._session.close()
        except Exception as error:
            logger.warning("The lease could not be given back, it will expire: %s", error)
        await self._listener.stop()
        await self._session.abandon()
        self._executor.close()
        await self._opened.close()
        await _close(pool)
        logger.info("Worker %s has stopped: %r.", self.name, self.tally)

    def hurry(self) -> None:
        """End the present phase of the stop now."""
        self._hurried.set()

    def ask_to_stop(self) -> None:
        """For signal handlers: stop, and at a second call hurry."""
        if self._stop_asked.is_set():
            self.hurry()
        self._stop_asked.set()

    async def run(self) -> None:
        """Work until `ask_to_stop`."""
        async with self:
            await self._stop_asked.wait()

    # Drain

    async def drain(
        self, *, limit: int | None = None, seconds: float | timedelta | None = None
    ) -> Tally:
        """Work off what is ready, then stop: at most so many jobs, for at most so long.

        Jobs that become due meanwhile are included. For hosts that are driven by cron, and for
        tests.
        """
        length = seconds.total_seconds() if isinstance(seconds, timedelta) else seconds
        await self.start(limit=limit)
        try:
            async with asyncio.timeout(length):
                stopped = asyncio.ensure_future(self._stop_asked.wait())
                dried = asyncio.ensure_future(self._run_dry())
                try:
                    await asyncio.wait([stopped, dried], return_when=asyncio.FIRST_COMPLETED)
                    if dried.done():
                        dried.result()
                finally:
                    stopped.cancel()
                    dried.cancel()
        except TimeoutError:
            pass
        finally:
            await self.stop()
        return self.tally

    async def _run_dry(self) -> None:
        while True:
            promoted = await self._maintenance.promoter.promote()
            ready = [await scanner.scan() for scanner in self._scanners.values()]
            await self._quiet()
            if self._quota.is_spent or (not promoted and not any(ready)):
                return

    async def _quiet(self) -> None:
        """Wait until nothing is fetched, running or unsettled."""
        while True:
            for claimer in self._claimers.values():
                await claimer.settled()
            await self._dispatcher.drained()
            await self._completer.drained()
            if not self._dispatcher.jobs() and not self._completer.unsettled:
                return
            await asyncio.sleep(0)

    # Who tells whom

    def _wants(self, state: QueueState) -> None:
        if state.wanted and state.marks:
            self._claimers[state.name].wake()

    def _has_room(self) -> bool:
        """Whether to claim more: not while many outcomes are unwritten or a job must run alone."""
        return (
            self._completer.unsettled < self._pace.unsettled_most
            and not self._dispatcher.is_reserved
        )

    def _scan_pause(self, took: float) -> float:
        shortest = self._pace.rescan if self._listener.is_listening else self._pace.poll
        return max(shortest, Budget.SHARE * took)

    def _heard_ready(self, queue: str, lane: str, priority: int, ready_at: datetime) -> None:
        state = self.states.get(queue)
        if state is not None:
            state.marks.lower(lane, priority, ready_at)
            self._claimers[queue].wake()

    def _look_around(self) -> None:
        for scanner in self._scanners.values():
            scanner.wake()

    def _known(self) -> list[int]:
        return [*self._dispatcher.jobs(), *self._completer.jobs()]

    def _signalled(self, signals: Signals) -> None:
        for job, token, _ in signals:
            run = self._dispatcher.running.get(job)
            if run is not None and run.attempt.token == token:
                run.stop("cancelled")

    def _lapsed(self, lease: int) -> None:
        running = len(self._dispatcher.running)
        self._events.emit(LeaseLapsed(lease, running))
        logger.warning("Lease %d is gone; %d jobs are stopped.", lease, running)
        self._dispatcher.forget()

    def _settled(self, batch: Sequence[Settlement]) -> None:
        self.tally.add(batch)
        if self._events.wanted(JobFinished):
            for settlement in batch:
                self._emit_finished(settlement)

    def _make_room(self) -> None:
        if self._completer.unsettled <= self._pace.unsettled_most // 2:
            for state in self.states.values():
                self._wants(state)

    def _emit_finished(self, settlement: Settlement) -> None:
        run: Run | None = settlement.source
        if run is None:
            return
        attempt, transition = run.attempt, settlement.transition
        self._events.emit(
            JobFinished(
                str(attempt.id),
                attempt.task,
                attempt.queue,
                attempt.number,
                transition.state,
                transition.reason,
                run.seconds,
            )
        )

    def _refused(self, settlement: Settlement, answer: Answer) -> None:
        run: Run | None = settlement.source
        if run is not None and run.completed:
            return
        if answer != "cancelled":
            self.tally.refused += 1
            logger.warning("The outcome of job %d was refused: it is not ours.", settlement.id)
        task, number = (run.attempt.task, run.attempt.number) if run else ("", 0)
        self._events.emit(SettleRefused(str(settlement.id), task, number, answer))


async def _close(pool: Pool) -> None:
    try:
        async with asyncio.timeout(5):
            await pool.close()
    except Exception:
        pool.terminate()
