"""Faults for tests: failures that `drain` injects into a chosen call of a task."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from typing import Any, get_args

from penstock.app.app import Penstock
from penstock.errors import BadArgument
from penstock.store import Executor, Store, key_of
from penstock.tasks import Task
from penstock.testing.errors import NotDrained
from penstock.testing.watch import Call, Point
from penstock.worker.attempt import StopReason


class TestingStore(Store):
    """The statements of the queue, and some more that only tests use."""

    async def advance(self, on: Executor, seconds: float | None, moment: datetime | None) -> None:
        """Move all stored times into the past, by `seconds` or as far as `moment` is ahead."""
        await on.fetch(self.statement("make_room_to_advance"), seconds, moment, self.schema)
        await on.fetch(self.statement("advance_time"), seconds, moment)

    async def lose_worker(self, on: Executor, job: int) -> bool:
        """Take a job away from its running attempt. Returns False if no attempt runs it."""
        return bool(await on.fetch(self.statement("mark_worker_lost"), job))

    async def cut_connections(self, on: Executor, name: str) -> int:
        """End all connections with an application name, and return how many there were."""
        return len(await on.fetch(self.statement("cut_connections"), name))


__all__ = [
    "Cancel",
    "Fault",
    "LoseConnection",
    "LoseWorker",
    "Raise",
    "ShutDown",
    "TimeOut",
]

WORKER_POOL = "penstock worker"


@dataclass(frozen=True)
class Fault(ABC):
    """A failure to inject into a task: in the nth `call`, at its `start` or at its `end`.

    The start is before the handler begins, and the end is after the handler's work.
    """

    task: Task[..., Any]
    _: KW_ONLY
    call: int = 1
    at: Point = "start"

    def __post_init__(self) -> None:
        if not isinstance(self.task, Task):
            raise TypeError(f"The task of a fault must be a task, not {self.task!r}.")
        if type(self.call) is not int or self.call < 1:
            raise BadArgument("call", self.call, "the number of a call, from 1 on")
        if self.at not in get_args(Point):
            raise BadArgument("at", self.at, " or ".join(get_args(Point)))

    @abstractmethod
    async def strike(self, app: Penstock, call: Call) -> None:
        """Cause the failure."""


@dataclass(frozen=True)
class Raise(Fault):
    """The handler raises an error. With `at="end"`, it does so after all its work is done.

    Raise(charge, ConnectionError("the bank is away"), call=2)
    """

    error: BaseException

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.error, BaseException):
            raise TypeError(
                f"The error that a handler raises must be an exception, not {self.error!r}."
            )

    async def strike(self, app: Penstock, call: Call) -> None:
        raise self.error


@dataclass(frozen=True)
class TimeOut(Fault):
    """The attempt times out at once, without waiting for its timeout.

    An async handler is cancelled at its next await. A plain `def` finds `ctx.cancelled` set. With
    `at="end"`, the handler has done all its work, but too late.
    """

    async def strike(self, app: Penstock, call: Call) -> None:
        await _let_handler_begin()
        await _stop(call, "timeout", self.at)


@dataclass(frozen=True)
class Cancel(Fault):
    """Somebody cancels the job while the handler works."""

    async def strike(self, app: Penstock, call: Call) -> None:
        # The database notifies the worker, which might stop the call before the handler begins. It
        # does not stop an attempt that is stopping already.
        call.attempt.stop_reason = "cancelled"
        await app.cancel(call.job)
        await _let_handler_begin()
        call.attempt.stop_reason = None
        await _stop(call, "cancelled", self.at)


@dataclass(frozen=True)
class ShutDown(Fault):
    """The worker is stopped, as in a deploy, and gives the job back unfinished."""

    async def strike(self, app: Penstock, call: Call) -> None:
        await _let_handler_begin()
        await _stop(call, "shutdown", self.at)


@dataclass(frozen=True)
class LoseWorker(Fault):
    """The worker counts as lost: the outcome of this call is refused, and the job runs again.

    With `at="start"`, the handler works although its attempt no longer owns the job.
    """

    at: Point = field(default="end", kw_only=True)

    async def strike(self, app: Penstock, call: Call) -> None:
        store = TestingStore(app.store.schema)
        await app._execute(lambda on: store.lose_worker(on, key_of(call.job.id)), retry=False)


@dataclass(frozen=True)
class LoseConnection(Fault):
    """The worker's connections to Postgres break. By default, that is before it settles the job."""

    at: Point = field(default="end", kw_only=True)

    async def strike(self, app: Penstock, call: Call) -> None:
        store = TestingStore(app.store.schema)
        await app._execute(lambda on: store.cut_connections(on, WORKER_POOL), retry=False)


async def _let_handler_begin() -> None:
    # On Python 3.12 and later, a handler's first step runs before anybody could stop it.
    await asyncio.sleep(0)


async def _stop(call: Call, reason: StopReason, at: Point) -> None:
    call.attempt.stop(reason)
    if at == "end":
        await asyncio.sleep(0)


class FaultInjector:
    """Injects each fault into its call. `left` has the faults that have not struck yet."""

    def __init__(self, app: Penstock, faults: Iterable[Fault]) -> None:
        self._app = app
        self.left = list(faults)

    async def disturb(self, call: Call, point: Point) -> None:
        for fault in tuple(self.left):
            if (fault.task.name, fault.call, fault.at) == (call.task.name, call.number, point):
                self.left.remove(fault)
                call.is_struck = True
                await fault.strike(self._app, call)

    def check_all_struck(self, calls: Mapping[str, int]) -> None:
        """Raise NotDrained if a fault never struck, because such a test would prove nothing."""
        for fault in self.left:
            name, number = fault.task.name, calls.get(fault.task.name, 0)
            raise NotDrained(
                f"The fault {type(fault).__name__} should have struck call {fault.call} of {name} "
                f"at its {fault.at}, but never did: there {_calls(number)}."
            )


def _calls(number: int) -> str:
    return "was 1 call" if number == 1 else f"were {number} calls"


class Redelivery:
    """Delivers every successful job a second time, which "at least once" allows."""

    def __init__(self, app: Penstock) -> None:
        self._app = app
        self._delivered: set[str] = set()

    async def disturb(self, call: Call, point: Point) -> None:
        if point == "end" and call.job.id not in self._delivered:
            self._delivered.add(call.job.id)
            await LoseWorker(call.task).strike(self._app, call)
