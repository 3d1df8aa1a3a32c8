"""The main loop of a child process: one attempt after the other, and its resources."""

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
from penstock.isolation.limits_page import BUSY, TIMEOUT, Allowed, LimitsPage
from penstock.isolation.system import resident
from penstock.job import storable
from penstock.store import ClaimedJob, Settlement, Store
from penstock.tasks import Registry, Task
from penstock.worker import processes
from penstock.worker.attempt import Attempt
from penstock.worker.children import logs
from penstock.worker.children.channel import Channel
from penstock.worker.children.messages import (
    ChildSettings,
    Dropped,
    Ended,
    FromWorker,
    Idle,
    Leave,
    Order,
    Stop,
    Told,
    Up,
)
from penstock.worker.children.remote import RemoteBudgets, RemoteJournal
from penstock.worker.claim.queue import QueueState
from penstock.worker.run.executor import Executor
from penstock.worker.run.items import ItemAttempt
from penstock.worker.run.progress import MESSAGE_LIMIT
from penstock.worker.run.resources import Offers, Opener, opening

logger_resources = logging.getLogger("penstock.resources")


class Inner(Offers):
    """What one child has open."""

    def __init__(self, openers: dict[type[Any], Opener], database: Database) -> None:
        super().__init__()
        self._openers = openers
        self._database = database
        self._opening: dict[type[Any], asyncio.Future[None]] = {}
        self._stack = AsyncExitStack()

    async def need(self, kinds: Iterable[type[Any]], seconds: float) -> None:
        """Open those that are not; one that cannot be opened stays missing, and one that takes
        longer than so many seconds until it is open."""
        until = time.monotonic() + seconds
        for kind in kinds:
            if kind in self._open or kind not in self._openers:
                continue
            if kind not in self._opening:
                self._opening[kind] = asyncio.ensure_future(self._enter(kind))
            await asyncio.wait([self._opening[kind]], timeout=max(0.0, until - time.monotonic()))
            if kind in self._opening:
                logger_resources.error(
                    "The resource %s takes longer than %g s to open in a child process.",
                    kind.__name__,
                    seconds,
                )

    async def _enter(self, kind: type[Any]) -> None:
        try:
            opener = opening(self._openers[kind], self._database)
            self._open[kind] = await self._stack.enter_async_context(opener)
        except (Exception, asyncio.CancelledError) as error:
            logger_resources.error(
                "The resource %s could not be opened in a child process: %r", kind.__name__, error
            )
        finally:
            del self._opening[kind]

    async def close(self) -> None:
        for each in list(self._opening.values()):
            each.cancel()
        await self._stack.aclose()


logger_life = logging.getLogger("penstock.isolation")

# A handler may report each of a million rows: so often a child passes it on.
REPORT = 0.05
# How long it may take to open what a job needs.
OPENING = 60.0
OPENING_GRACE = 5.0


def live(channel: socket.socket, board: LimitsPage, row: int, told: Any) -> None:
    """Be a child process until the worker says to leave."""
    line, given = Channel(channel), msgspec.convert(told, ChildSettings)
    logs.send_all(line, given.log_level)
    processes.run(MainLoop(line, board, row, given).run())


class MainLoop:
    """Runs attempts as the worker does, with an executor of its own; what comes of them is sent."""

    def __init__(self, line: Channel, board: LimitsPage, row: int, given: ChildSettings) -> None:
        self._line = line
        self._board = board
        self._row = row
        self._given = given
        self._tasks: Registry = find(given.registry)()
        self._states: dict[str, QueueState] = {}
        self._attempt: Attempt | None = None
        self._stop: Stop | None = None
        self._settled = False
        self._is_idle = True
        self._report_due = 0.0
        self._last: Told | None = None

    async def run(self) -> None:
        self._over = asyncio.Event()
        openers = {find(kind): find(opener) for kind, opener in self._given.resources}
        self._resources = Inner(openers, self._given.database)
        self._budgets = RemoteBudgets(self._line)
        self._executor = Executor(
            self._tasks,
            Store(self._given.database.schema),
            self._resources,
            self._budgets,
            RemoteJournal(self._line),
            self._report,
            self._settle,
            tracing=find(self._given.tracing)() if self._given.tracing else None,
            worker=self._given.worker,
            threads=1,
            park_limit=self._given.park_limit,
            log=self._given.log,
        )
        self._line.listen(self._heard, self._gone)
        self._line.send(Up())
        await self._over.wait()
        await self._resources.close()

    def _heard(self, message: FromWorker) -> None:
        match message:
            case Order():
                self._begin(message)
            case Stop():
                self._stop = message
                if self._attempt is not None:
                    self._attempt.stop(message.reason)
            case Leave():
                self._over.set()

    def _gone(self) -> None:
        """Without its worker a child has nobody to work for."""
        os._exit(0)

    # An order

    def _begin(self, order: Order) -> None:
        self._attempt, self._stop, self._settled, self._last = None, None, False, None
        task = self._find(order.task)
        if task and self._resources.missing(task.settings.resources):
            self._opening = asyncio.ensure_future(self._open_first(order, task.settings.resources))
        else:
            self._start(order)

    def _find(self, name: str) -> Task[..., Any] | None:
        if name not in self._tasks and (place := self._given.tasks.get(name)):
            try:
                self._tasks.add(find(place))
            except Exception:
                # Its module is not what it was when the worker began.
                logger_life.exception("The task %s is not found any more at %s.", name, place)
        return self._tasks.find(name)

    async def _open_first(self, order: Order, kinds: tuple[type[Any], ...]) -> None:
        """What it takes to open a resource is not the job's, and has a limit of its own."""
        # An opener that does not let the loop go on is the supervisor's to end.
        self._board.give(self._row, OPENING + OPENING_GRACE)
        left = order.begin_by - time.monotonic() if order.begin_by else OPENING
        try:
            await self._resources.need(kinds, min(left, OPENING))
        finally:
            self._start(order)

    def _start(self, order: Order) -> None:
        row = msgspec.structs.asdict(order)
        job = ClaimedJob(row, order.queue)  # type: ignore[arg-type]
        if 0.0 < order.begin_by < time.monotonic():
            # The resource is open now, or soon: the next attempt has all its time.
            self._executor.release(job)
            return
        self._budgets.now_for(job, order.rated)
        state = self._states.get(order.queue)
        if state is None:
            state = self._states[order.queue] = QueueState(order.queue, 1, 1)
        now = time.monotonic()
        kind = TIMEOUT if order.is_timeout else BUSY
        allowed = Allowed(now, order.seconds, order.memory, kind)
        self._board.begin(self._row, allowed)
        attempt = self._executor.start(job, state)
        if attempt is None or self._settled:
            return
        self._attempt = attempt
        assert attempt.future is not None
        attempt.future.add_done_callback(lambda _: self._ended(attempt))
        if self._stop is not None:
            attempt.stop(self._stop.reason)

    # What comes of it

    def _settle(self, settlement: Settlement) -> None:
        attempt: Attempt | None = settlement.source
        if self._last is not None:
            self._line.send(self._last)
            self._last = None
        # One of many is settled when it is told to stop, not when the handler has ended.
        idle = attempt is None or attempt.stopped is None or _is_stopped_when_settled(attempt)
        self._settled, self._is_idle = True, idle
        if idle:
            self._board.end(self._row)
        self._line.send(
            Ended(
                msgspec.structs.replace(settlement.transition, result=None),
                settlement.result,
                settlement.is_check,
                attempt is not None and attempt.completed,
                attempt is not None and attempt.stopped == "refused",
                idle,
                resident(os.getpid()),
            )
        )

    def _ended(self, attempt: Attempt) -> None:
        """The handler has returned, perhaps long after its attempt was given up."""
        if attempt.timer is not None:
            attempt.timer.cancel()
        if self._attempt is not attempt:
            return
        self._attempt = None
        if not attempt.is_settled:
            self._executor.never_ran(attempt)
        if self._settled and self._is_idle:
            return  # Another may have been given since, and stand on the board.
        self._board.end(self._row)
        held = resident(os.getpid())
        self._line.send(Idle(held) if self._settled else Dropped(held))
        self._settled = self._is_idle = True

    def _report(
        self, attempt: Attempt, done: float, total: float | None, message: str | None
    ) -> None:
        text = None if message is None else storable(str(message), MESSAGE_LIMIT)
        most = None if total is None else float(total)
        told = Told(attempt.job.token, float(done), most, text)
        now = time.monotonic()
        if now >= self._report_due:
            self._report_due = now + REPORT
            self._last = None
            self._line.send(told)
        else:
            self._last = told


def _is_stopped_when_settled(attempt: Attempt) -> bool:
    """Whether the handler of a stopped attempt has ended when its outcome is known."""
    return attempt.task.is_async and not isinstance(attempt, ItemAttempt)
