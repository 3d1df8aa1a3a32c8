"""Watches the handlers of an app while a test runs them, one job or many in a call."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Literal, Protocol

from msgspec.structs import replace

from penstock.errors import StaleAttempt
from penstock.job import Job
from penstock.tasks import AsyncContextTask, Item, Registry, SyncContextTask, Task
from penstock.tasks.handler.waits import suspension
from penstock.tasks.task import BATCH_KINDS
from penstock.worker.attempt import Attempt
from penstock.worker.run.calls import fails_all_items
from penstock.worker.run.context import AttemptContext

AnyTask = Task[..., Any]


class Shared:
    """One call of a handler under watch, with the items that no fault has struck."""

    def __init__(self, watch: Watch, task: AnyTask, ctx: Any, items: list[Item[Any]]) -> None:
        self._watch = watch
        self._task = task
        self._ctx = ctx
        self._items = items
        self.calls = [_call(watch, task, item) for item in items]
        self._struck: dict[int, BaseException] = {}

    @property
    def left(self) -> list[int]:
        return [number for number in range(len(self._items)) if number not in self._struck]

    def strike(self, number: int, error: BaseException) -> None:
        """A fault's error is the outcome of its item."""
        self._struck[number] = error

    def outcome(self, number: int, value: Any) -> Any:
        return self._struck.get(number, value)

    @property
    def given(self) -> tuple[Any, ...]:
        """What the handler gets."""
        items = [self._items[number] for number in self.left]
        return (self._ctx, items) if self._task.takes_context else (items,)

    def raised(self, error: BaseException) -> bool:
        """Whether to tell of an error: not of one for which the guilty item is still looked for."""
        calls = [self.calls[number] for number in self.left]
        if not calls or not (len(calls) == 1 or fails_all_items(error, self._task)):
            return False
        return self._tell(calls[0], error)

    def _tell(self, call: Call, error: BaseException) -> bool:
        is_failure = self._watch.is_failure(call, error)
        if is_failure:
            self._watch.note(call, error)
        return is_failure

    def returned(self, values: Any) -> tuple[Any, bool]:
        """What the handler said, with the faults among it, and whether there is a failure in it."""
        if not isinstance(values, list | tuple) or len(values) != len(self.left):
            return values, False
        said, failed = dict(zip(self.left, values, strict=True)), False
        for number, value in said.items():
            if isinstance(value, BaseException):
                failed = self._tell(self.calls[number], value) or failed
            else:
                self._watch.returned.append((self.calls[number], value))
        said |= self._struck
        return [said[number] for number in range(len(self._items))], failed


def around_async(watch: Watch, task: AnyTask) -> Callable[..., Any]:
    async def befall(shared: Shared, point: Any) -> None:
        for number in shared.left:
            try:
                await watch.befall(shared.calls[number], point)
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                shared.strike(number, error)

    async def handler(ctx: Any, items: list[Item[Any]]) -> Any:
        shared = Shared(watch, task, ctx, items)
        await befall(shared, "start")
        try:
            values = await task.fn(*shared.given) if shared.left else []
        except BaseException as error:
            if shared.raised(error):
                watch.on_raise()
            raise
        said, failed = shared.returned(values)
        await befall(shared, "end")
        if failed:
            watch.on_raise()
        return _struck(shared, said)

    return handler


def around_sync(watch: Watch, task: AnyTask) -> Callable[..., Any]:
    def befall(shared: Shared, point: Any) -> None:
        for number in shared.left:
            try:
                watch.befall_from_thread(shared.calls[number], point)
            except BaseException as error:
                shared.strike(number, error)

    def handler(ctx: Any, items: list[Item[Any]]) -> Any:
        shared = Shared(watch, task, ctx, items)
        befall(shared, "start")
        try:
            values = task.fn(*shared.given) if shared.left else []
        except BaseException as error:
            if shared.raised(error):
                watch.on_raise_from_thread()
            raise
        said, failed = shared.returned(values)
        befall(shared, "end")
        if failed:
            watch.on_raise_from_thread()
        return _struck(shared, said)

    return handler


def _struck(shared: Shared, said: Any) -> Any:
    """The outcomes, with those of faults that struck after the handler had done its work."""
    if not isinstance(said, list):
        return said
    return [shared.outcome(number, value) for number, value in enumerate(said)]


def _call(watch: Watch, task: AnyTask, item: Item[Any]) -> Call:
    """The item's attempt: counted once, also if the handler is called again to find who failed."""
    ctx = item.ctx
    assert isinstance(ctx, AttemptContext)
    known = watch.places.get((ctx.job.id, ctx.job.attempt))
    return watch.begin(task, ctx) if known is None else known


Place = tuple[str, int]  # a job's id and the number of the attempt
Point = Literal["start", "end"]


class Call:
    """One attempt in the hands of its handler."""

    def __init__(self, task: AnyTask, number: int, ctx: AttemptContext) -> None:
        self.task = task
        self.number = number  # among the calls of this task, from 1 on
        self.job: Job = ctx.job
        self.attempt: Attempt = ctx._attempt
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
        return not call.struck and not (told_to_stop and call.attempt.stop_reason is not None)

    def note(self, call: Call, error: BaseException) -> None:
        error.add_note(call.note())
        self.raised.append((call, error))


def _given(task: AnyTask, ctx: AttemptContext, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return (ctx, *args) if task.takes_context else args
