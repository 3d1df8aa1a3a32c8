"""Statements that only tests send: they do to the queue what time and accidents do to it."""

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


class Levers(Store):
    """The queue's statements, and those that bring about what a test cannot wait for."""

    async def advance(self, on: Executor, seconds: float | None, moment: datetime | None) -> None:
        """Let so many seconds pass for everything that is stored, or else pass until a moment."""
        await on.fetch(self.statement("make_room_to_advance"), seconds, moment, self.schema)
        await on.fetch(self.statement("advance_time"), seconds, moment)

    async def lose(self, on: Executor, job: int) -> bool:
        """Take a job away from the attempt that runs it; False if none does."""
        return bool(await on.fetch(self.statement("mark_worker_lost"), job))

    async def cut_connections(self, on: Executor, name: str) -> int:
        """End the connections that go by a name."""
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
    """One accident: to which task, at which of its calls, and when in it."""

    task: Task[..., Any]
    _: KW_ONLY
    call: int = 1
    at: Point = "start"

    def __post_init__(self) -> None:
        if not isinstance(self.task, Task):
            raise TypeError(f"A fault strikes a task, not {self.task!r}.")
        if type(self.call) is not int or self.call < 1:
            raise BadArgument("call", self.call, "the number of a call, from 1 on")
        if self.at not in get_args(Point):
            raise BadArgument("at", self.at, " or ".join(get_args(Point)))

    @abstractmethod
    async def strike(self, app: Penstock, call: Call) -> None:
        """Let it happen."""


@dataclass(frozen=True)
class Raise(Fault):
    """The handler fails: with `at="end"` only after everything it does was done.

    Raise(charge, ConnectionError("the bank is away"), call=2)
    """

    error: BaseException

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.error, BaseException):
            raise TypeError(f"What a handler raises is an exception, not {self.error!r}.")

    async def strike(self, app: Penstock, call: Call) -> None:
        raise self.error


@dataclass(frozen=True)
class TimeOut(Fault):
    """The attempt's time is up, without the wait: an async handler is cancelled at its next await,
    a sync one finds `ctx.cancelled` set. With `at="end"` it did everything, too late."""

    async def strike(self, app: Penstock, call: Call) -> None:
        await _begun()
        await _stop(call, "timeout", self.at)


@dataclass(frozen=True)
class Cancel(Fault):
    """Somebody cancels the job while the handler works."""

    async def strike(self, app: Penstock, call: Call) -> None:
        # The database tells the worker too, which might stop the call before the handler begins.
        # One that is stopping already is left alone.
        call.attempt.stop_reason = "cancelled"
        await app.cancel(call.job)
        await _begun()
        call.attempt.stop_reason = None
        await _stop(call, "cancelled", self.at)


@dataclass(frozen=True)
class ShutDown(Fault):
    """The worker is stopped, as by a deploy, and gives the job back unfinished."""

    async def strike(self, app: Penstock, call: Call) -> None:
        await _begun()
        await _stop(call, "shutdown", self.at)


@dataclass(frozen=True)
class LoseWorker(Fault):
    """The worker is taken for lost while it works: what this call comes to is refused, and the job
    runs again. With `at="start"` the handler works although it no longer owns the job."""

    at: Point = field(default="end", kw_only=True)

    async def strike(self, app: Penstock, call: Call) -> None:
        levers = Levers(app.store.schema)
        await app._ask(lambda on: levers.lose(on, key_of(call.job.id)), again=False)


@dataclass(frozen=True)
class LoseConnection(Fault):
    """The worker's connections to Postgres break; with `at="end"` when it is about to settle."""

    at: Point = field(default="end", kw_only=True)

    async def strike(self, app: Penstock, call: Call) -> None:
        levers = Levers(app.store.schema)
        await app._ask(lambda on: levers.cut_connections(on, WORKER_POOL), again=False)


async def _begun() -> None:
    # On Python 3.12 and later a handler's first step comes before anybody could stop it.
    await asyncio.sleep(0)


async def _stop(call: Call, reason: StopReason, at: Point) -> None:
    call.attempt.stop(reason)
    if at == "end":
        await asyncio.sleep(0)


class Strikes:
    """Lets each fault strike at its call, and knows which did."""

    def __init__(self, app: Penstock, faults: Iterable[Fault]) -> None:
        self._app = app
        self.left = list(faults)

    async def befall(self, call: Call, point: Point) -> None:
        for fault in tuple(self.left):
            if (fault.task.name, fault.call, fault.at) == (call.task.name, call.number, point):
                self.left.remove(fault)
                call.struck = True
                await fault.strike(self._app, call)

    def expect_none_left(self, calls: Mapping[str, int]) -> None:
        """A fault that never struck has shown nothing: the test must not pass for it."""
        for fault in self.left:
            name, made = fault.task.name, calls.get(fault.task.name, 0)
            raise NotDrained(
                f"The fault {type(fault).__name__} was to strike call {fault.call} of {name} at "
                f"its {fault.at}, and never did: there {_calls(made)}."
            )


def _calls(number: int) -> str:
    return "was 1 call" if number == 1 else f"were {number} calls"


class Twice:
    """Every job that goes well is delivered once more: at least once means that it may be."""

    def __init__(self, app: Penstock) -> None:
        self._app = app
        self._delivered: set[str] = set()

    async def befall(self, call: Call, point: Point) -> None:
        if point == "end" and call.job.id not in self._delivered:
            self._delivered.add(call.job.id)
            await LoseWorker(call.task).strike(self._app, call)
