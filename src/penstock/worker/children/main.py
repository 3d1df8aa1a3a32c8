"""The main loop of a child process: it runs one attempt after the other."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import Any

import msgspec

from penstock.config import Database
from penstock.isolation.child import find
from penstock.isolation.limits_page import RUNNING, RUNNING_TIMED, ChildLimits, LimitsPage
from penstock.isolation.system import resident_bytes
from penstock.job import storable
from penstock.store import ClaimedJob, Settlement, Store
from penstock.tasks import Registry, Task
from penstock.worker import processes
from penstock.worker.attempt import Attempt
from penstock.worker.children import logs
from penstock.worker.children.channel import Channel
from penstock.worker.children.messages import (
    Abandoned,
    AttemptEnded,
    ChildReady,
    ChildSettings,
    FromWorker,
    Idle,
    Leave,
    ProgressReport,
    StartAttempt,
    StopAttempt,
)
from penstock.worker.children.remote import RemoteBudgets, RemoteJournal
from penstock.worker.claim.queue import QueueState
from penstock.worker.run.executor import Executor
from penstock.worker.run.items import ItemAttempt
from penstock.worker.run.progress import MAX_MESSAGE_CHARS
from penstock.worker.run.resources import Opener, OpenResources, call_opener

resource_logger = logging.getLogger("penstock.resources")


class ChildResources(OpenResources):
    """The resources that one child has open."""

    def __init__(self, openers: dict[type[Any], Opener], database: Database) -> None:
        super().__init__()
        self._openers = openers
        self._database = database
        self._opening: dict[type[Any], asyncio.Future[None]] = {}
        self._stack = AsyncExitStack()

    async def open_all(self, kinds: Iterable[type[Any]], seconds: float) -> None:
        """Open the resources that are not open yet, within these seconds.

        A resource that cannot be opened stays missing. A resource that takes longer stays missing
        until it is open.
        """
        ends_at = time.monotonic() + seconds
        for kind in kinds:
            if kind in self._open or kind not in self._openers:
                continue
            if kind not in self._opening:
                self._opening[kind] = asyncio.ensure_future(self._enter(kind))
            await asyncio.wait([self._opening[kind]], timeout=max(0.0, ends_at - time.monotonic()))
            if kind in self._opening:
                resource_logger.error(
                    "The resource %s has not opened within %g s in a child process.",
                    kind.__name__,
                    seconds,
                )

    async def _enter(self, kind: type[Any]) -> None:
        try:
            opener = call_opener(self._openers[kind], self._database)
            self._open[kind] = await self._stack.enter_async_context(opener)
        except (Exception, asyncio.CancelledError) as error:
            resource_logger.error(
                "The resource %s could not be opened in a child process: %r", kind.__name__, error
            )
        finally:
            del self._opening[kind]

    async def close(self) -> None:
        for task in list(self._opening.values()):
            task.cancel()
        await self._stack.aclose()


logger = logging.getLogger("penstock.isolation")

# A child passes on progress this often. A handler may report each of a million rows.
REPORT_INTERVAL_S = 0.05
# The seconds that opening a job's resources may take.
OPEN_TIMEOUT_S = 60.0
OPEN_GRACE_S = 5.0


def run_child(connection: socket.socket, limits_page: LimitsPage, row: int, data: Any) -> None:
    """Run this child process until the worker tells it to leave."""
    channel, settings = Channel(connection), msgspec.convert(data, ChildSettings)
    logs.send_logs_to_worker(channel, settings.log_level)
    processes.run(MainLoop(channel, limits_page, row, settings).run())


class MainLoop:
    """Runs attempts with an executor of its own, and sends their outcomes to the worker."""

    def __init__(
        self, channel: Channel, limits_page: LimitsPage, row: int, settings: ChildSettings
    ) -> None:
        self._channel = channel
        self._limits_page = limits_page
        self._row = row
        self._settings = settings
        self._tasks: Registry = find(settings.registry)()
        self._states: dict[str, QueueState] = {}
        self._attempt: Attempt | None = None
        self._stop: StopAttempt | None = None
        self._settled = False
        self._is_idle = True
        self._report_due = 0.0
        self._unsent_report: ProgressReport | None = None

    async def run(self) -> None:
        self._leaving = asyncio.Event()
        openers = {find(kind): find(opener) for kind, opener in self._settings.resources}
        self._resources = ChildResources(openers, self._settings.database)
        self._budgets = RemoteBudgets(self._channel)
        self._executor = Executor(
            self._tasks,
            Store(self._settings.database.schema),
            self._resources,
            self._budgets,
            RemoteJournal(self._channel),
            self._report,
            self._settle,
            tracing=find(self._settings.tracing)() if self._settings.tracing else None,
            worker=self._settings.worker,
            threads=1,
            park_limit=self._settings.park_limit,
            log=self._settings.log,
        )
        self._channel.listen(self._handle, self._exit)
        self._channel.send(ChildReady())
        await self._leaving.wait()
        await self._resources.close()

    def _handle(self, message: FromWorker) -> None:
        match message:
            case StartAttempt():
                self._receive_order(message)
            case StopAttempt():
                self._stop = message
                if self._attempt is not None:
                    self._attempt.stop(message.reason)
            case Leave():
                self._leaving.set()

    def _exit(self) -> None:
        """End this process at once, because its worker is gone."""
        os._exit(0)

    # Starting an attempt

    def _receive_order(self, order: StartAttempt) -> None:
        self._attempt, self._stop, self._settled, self._unsent_report = None, None, False, None
        task = self._find_task(order.task)
        if task and self._resources.missing(task.settings.resources):
            self._opening = asyncio.ensure_future(self._open_first(order, task.settings.resources))
        else:
            self._start_attempt(order)

    def _find_task(self, name: str) -> Task[..., Any] | None:
        if name not in self._tasks and (path := self._settings.tasks.get(name)):
            try:
                self._tasks.add(find(path))
            except Exception:
                # The task's module has changed since the worker started.
                logger.exception(
                    "A child process could not import the task %s from %s, although the worker "
                    "could.",
                    name,
                    path,
                )
        return self._tasks.find(name)

    async def _open_first(self, order: StartAttempt, kinds: tuple[type[Any], ...]) -> None:
        """Open the resources that the task needs, then start the attempt.

        Opening has a time limit of its own, apart from the job's.
        """
        # If an opener blocks the loop, the supervisor ends this child.
        self._limits_page.expect_start(self._row, OPEN_TIMEOUT_S + OPEN_GRACE_S)
        left = order.start_by - time.monotonic() if order.start_by else OPEN_TIMEOUT_S
        try:
            await self._resources.open_all(kinds, min(left, OPEN_TIMEOUT_S))
        finally:
            self._start_attempt(order)

    def _start_attempt(self, order: StartAttempt) -> None:
        row = msgspec.structs.asdict(order)
        job = ClaimedJob(row, order.queue)  # type: ignore[arg-type]
        if 0.0 < order.start_by < time.monotonic():
            # The resource is open by now or soon, so the next attempt has all of its time.
            self._executor.release(job)
            return
        self._budgets.serve(job, order.rated_keys)
        state = self._states.get(order.queue)
        if state is None:
            state = self._states[order.queue] = QueueState(order.queue, 1, 1)
        now = time.monotonic()
        kind = RUNNING_TIMED if order.is_timeout else RUNNING
        limits = ChildLimits(now, order.seconds, order.memory, kind)
        self._limits_page.begin(self._row, limits)
        attempt = self._executor.start(job, state)
        if attempt is None or self._settled:
            return
        self._attempt = attempt
        assert attempt.future is not None
        attempt.future.add_done_callback(lambda _: self._on_handler_done(attempt))
        if self._stop is not None:
            attempt.stop(self._stop.reason)

    # Outcomes and reports

    def _settle(self, settlement: Settlement) -> None:
        attempt: Attempt | None = settlement.source
        if self._unsent_report is not None:
            self._channel.send(self._unsent_report)
            self._unsent_report = None
        # An item is settled when it is told to stop, before its handler has ended.
        idle = attempt is None or attempt.stop_reason is None or _is_stopped_when_settled(attempt)
        self._settled, self._is_idle = True, idle
        if idle:
            self._limits_page.end(self._row)
        self._channel.send(
            AttemptEnded(
                msgspec.structs.replace(settlement.transition, result=None),
                settlement.result,
                settlement.is_check,
                attempt is not None and attempt.completed,
                attempt is not None and attempt.stop_reason == "refused",
                idle,
                resident_bytes(os.getpid()),
            )
        )

    def _on_handler_done(self, attempt: Attempt) -> None:
        """Tell the worker that the handler has returned, perhaps long after its attempt ended."""
        if attempt.timer is not None:
            attempt.timer.cancel()
        if self._attempt is not attempt:
            return
        self._attempt = None
        if not attempt.is_settled:
            self._executor.handle_unstarted(attempt)
        if self._settled and self._is_idle:
            return  # The worker may have assigned another, whose limits are on the page.
        self._limits_page.end(self._row)
        memory = resident_bytes(os.getpid())
        self._channel.send(Idle(memory) if self._settled else Abandoned(memory))
        self._settled = self._is_idle = True

    def _report(
        self, attempt: Attempt, done: float, total: float | None, message: str | None
    ) -> None:
        text = None if message is None else storable(str(message), MAX_MESSAGE_CHARS)
        max_units = None if total is None else float(total)
        report = ProgressReport(attempt.job.token, float(done), max_units, text)
        now = time.monotonic()
        if now >= self._report_due:
            self._report_due = now + REPORT_INTERVAL_S
            self._unsent_report = None
            self._channel.send(report)
        else:
            self._unsent_report = report


def _is_stopped_when_settled(attempt: Attempt) -> bool:
    """Return whether a stopped attempt's handler has ended by the time its outcome is known."""
    return attempt.task.is_async and not isinstance(attempt, ItemAttempt)
