"""Stands around the handlers of an app while a test runs them.

It counts calls, lets faults strike, and keeps what handlers raise as it was raised: the queue only
keeps text.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Literal, Protocol

from msgspec.structs import replace

from penstock.errors import StaleAttempt
from penstock.job import Job
from penstock.tasks import AsyncContextTask, Registry, SyncContextTask, Task
from penstock.tasks.handler.waits import suspension
from penstock.tasks.task import BATCH_KINDS
from penstock.testing.watch_items import around_async, around_sync
from penstock.worker.context import AttemptContext
from penstock.worker.run import Run

AnyTask = Task[..., Any]
Place = tuple[str, int]  # a job's id and the number of the attempt
Point = Literal["start", "end"]


class Call:
    """One attempt in the hands of its handler."""

    def __init__(self, task: AnyTask, number: int, ctx: AttemptContext) -> None:
        self.task = task
        self.number = number  # among the calls of this task, from 1 on
        self.job: Job = ctx.job
        self.run: Run = ctx._run
        self.struck = False

    @property
    def place(self) -> Place:
        return self.job.id, self.job.attempt

    def note(self) -> str:
        args = ", ".join(f"{name}={value!r}" for name, value in self.job.args.items())
        return f"In attempt {self.job.attempt} of job {self.job.id}: {self.task.name}({args})"


class Disturbance(Protocol):
    """What may befall a call, before its handler begins or after it has done its work."""

    async def befall(self, call: Call, point: Point) -> None: ...


class Watch:
    """What the handlers did while they were watched."""

    def __init__(self, disturbances: Iterable[Disturbance] = ()) -> None:
        self._disturbances = list(disturbances)
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self.calls: Counter[str] = Counter()
        self.places: dict[Place, Call] = {}
        self.raised: list[tuple[Call, BaseException]] = []
        self.waits: list[BaseException] = []
        self.returned: list[tuple[Call, Any]] = []
        self.on_raise: Callable[[], object] = lambda: None

    def over(self, tasks: Iterable[AnyTask]) -> Registry:
        """The same tasks, watched."""
        watched = Registry()
        watched.add(*(self._watched(task) for task in tasks))
        return watched

    def _watched(self, task: AnyTask) -> AnyTask:
        """The task with a handler around its own, which always asks for the context."""
        if task.settings.batch is not None:
            return self._watched_items(task)
        around = self._around_async(task) if task.is_async else self._around_sync(task)
        watched = task.handled_by(around)
        # What is watched runs here: a child process would not know of it.
        watched.settings = replace(task.settings, isolate=False)
        watched.__class__ = AsyncContextTask if task.is_async else SyncContextTask
        return watched

    def _watched_items(self, task: AnyTask) -> AnyTask:
        around = around_async(self, task) if task.is_async else around_sync(self, task)
        watched = task.handled_by(around)
        watched.__class__ = BATCH_KINDS[task.is_async, True]
        return watched

    def _around_async(self, task: AnyTask) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def handler(ctx: AttemptContext, *args: Any, **kwargs: Any) -> Any:
            call = self.begin(task, ctx)
            try:
                await self.befall(call, "start")
                value = await task.fn(*_given(task, ctx, args), **kwargs)
                await self.befall(call, "end")
            except BaseException as error:
                if self.is_failure(call, error):
                    self.note(call, error)
                    self.on_raise()
                raise
            self.returned.append((call, value))
            return value

        return handler

    def _around_sync(self, task: AnyTask) -> Callable[..., Any]:
        def handler(ctx: AttemptContext, *args: Any, **kwargs: Any) -> Any:
            call = self.begin(task, ctx)
            try:
                self.befall_from_thread(call, "start")
                value = task.fn(*_given(task, ctx, args), **kwargs)
                self.befall_from_thread(call, "end")
            except BaseException as error:
                if self.is_failure(call, error):
                    self.note(call, error)
                    self.on_raise_from_thread()
                raise
            self.returned.append((call, value))
            return value

        return handler

    def begin(self, task: AnyTask, ctx: AttemptContext) -> Call:
        with self._lock:
            self.calls[task.name] += 1
            call = Call(task, self.calls[task.name], ctx)
            self.places[call.place] = call
        return call

    async def befall(self, call: Call, point: Point) -> None:
        for disturbance in self._disturbances:
            await disturbance.befall(call, point)

    def befall_from_thread(self, call: Call, point: Point) -> None:
        if self._disturbances:
            asyncio.run_coroutine_threadsafe(self.befall(call, point), self._loop).result()

    def on_raise_from_thread(self) -> None:
        self._loop.call_soon_threadsafe(self.on_raise)

    def is_failure(self, call: Call, error: BaseException) -> bool:
        """Not if a fault brought it about, or if it is how a handler stops when it is told to, or
        when it has to wait."""
        if suspension(error) is not None:
            self.waits.append(error)
            return False
        told_to_stop = isinstance(error, asyncio.CancelledError | StaleAttempt)
        return not call.struck and not (told_to_stop and call.run.stopped is not None)

    def note(self, call: Call, error: BaseException) -> None:
        error.add_note(call.note())
        self.raised.append((call, error))


def _given(task: AnyTask, ctx: AttemptContext, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return (ctx, *args) if task.takes_context else args
