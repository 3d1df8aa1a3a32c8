"""Watches an app's handlers while a test runs them, and lets faults strike their calls."""

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


class WatchedBatch:
    """One call of a batch handler. The handler does not get items that a fault has struck."""

    def __init__(self, watch: Watch, task: AnyTask, ctx: Any, items: list[Item[Any]]) -> None:
        self._watch = watch
        self._task = task
        self._ctx = ctx
        self._items = items
        self.calls = [_call(watch, task, item) for item in items]
        self._struck: dict[int, BaseException] = {}

    @property
    def left(self) -> list[int]:
        """The numbers of the items that no fault has struck."""
        return [number for number in range(len(self._items)) if number not in self._struck]

    def strike(self, number: int, error: BaseException) -> None:
        """Make a fault's error the outcome of an item."""
        self._struck[number] = error

    def outcome(self, number: int, value: Any) -> Any:
        return self._struck.get(number, value)

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The arguments for the handler."""
        items = [self._items[number] for number in self.left]
        return (self._ctx, items) if self._task.takes_context else (items,)

    def record_error(self, error: BaseException) -> bool:
        """Record an error of the handler, and return whether it is a failure.

        The error is no failure yet if the handler will be called again to find the guilty item.
        """
        calls = [self.calls[number] for number in self.left]
        if not calls or not (len(calls) == 1 or fails_all_items(error, self._task)):
            return False
        return self._record_failure(calls[0], error)

    def _record_failure(self, call: Call, error: BaseException) -> bool:
        is_failure = self._watch.is_failure(call, error)
        if is_failure:
            self._watch.record_failure(call, error)
        return is_failure

    def record_outcomes(self, values: Any) -> tuple[Any, bool]:
        """Record what the handler returned for each item.

        Returns the outcomes of all items, those struck by a fault included, and whether the handler
        returned a failure.
        """
        if not isinstance(values, list | tuple) or len(values) != len(self.left):
            return values, False
        outcomes, failed = dict(zip(self.left, values, strict=True)), False
        for number, value in outcomes.items():
            if isinstance(value, BaseException):
                failed = self._record_failure(self.calls[number], value) or failed
            else:
                self._watch.returned.append((self.calls[number], value))
        outcomes |= self._struck
        return [outcomes[number] for number in range(len(self._items))], failed


def wrap_async_batch(watch: Watch, task: AnyTask) -> Callable[..., Any]:
    async def disturb(batch: WatchedBatch, point: Any) -> None:
        for number in batch.left:
            try:
                await watch.disturb(batch.calls[number], point)
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                batch.strike(number, error)

    async def handler(ctx: Any, items: list[Item[Any]]) -> Any:
        batch = WatchedBatch(watch, task, ctx, items)
        await disturb(batch, "start")
        try:
            values = await task.fn(*batch.arguments) if batch.left else []
        except BaseException as error:
            if batch.record_error(error):
                watch.on_raise()
            raise
        outcomes, failed = batch.record_outcomes(values)
        await disturb(batch, "end")
        if failed:
            watch.on_raise()
        return _with_struck(batch, outcomes)

    return handler


def wrap_sync_batch(watch: Watch, task: AnyTask) -> Callable[..., Any]:
    def disturb(batch: WatchedBatch, point: Any) -> None:
        for number in batch.left:
            try:
                watch.disturb_from_thread(batch.calls[number], point)
            except BaseException as error:
                batch.strike(number, error)

    def handler(ctx: Any, items: list[Item[Any]]) -> Any:
        batch = WatchedBatch(watch, task, ctx, items)
        disturb(batch, "start")
        try:
            values = task.fn(*batch.arguments) if batch.left else []
        except BaseException as error:
            if batch.record_error(error):
                watch.on_raise_from_thread()
            raise
        outcomes, failed = batch.record_outcomes(values)
        disturb(batch, "end")
        if failed:
            watch.on_raise_from_thread()
        return _with_struck(batch, outcomes)

    return handler


def _with_struck(batch: WatchedBatch, outcomes: Any) -> Any:
    """Return the outcomes, with the fault's error for each item that a fault has struck."""
    if not isinstance(outcomes, list):
        return outcomes
    return [batch.outcome(number, value) for number, value in enumerate(outcomes)]


def _call(watch: Watch, task: AnyTask, item: Item[Any]) -> Call:
    """Return the call that stands for the attempt of an item's job.

    An attempt counts as one call, even if the handler is called again to find the guilty item.
    """
    ctx = item.ctx
    assert isinstance(ctx, AttemptContext)
    known = watch.calls_by_attempt.get((ctx.job.id, ctx.job.attempt))
    return watch.begin(task, ctx) if known is None else known


AttemptKey = tuple[str, int]  # a job's id and the number of the attempt
Point = Literal["start", "end"]


class Call:
    """One attempt that a handler runs."""

    def __init__(self, task: AnyTask, number: int, ctx: AttemptContext) -> None:
        self.task = task
        self.number = number  # of the calls of this task, from 1 on
        self.job: Job = ctx.job
        self.attempt: Attempt = ctx._attempt
        self.is_struck = False

    @property
    def key(self) -> AttemptKey:
        return self.job.id, self.job.attempt

    def description(self) -> str:
        args = ", ".join(f"{name}={value!r}" for name, value in self.job.args.items())
        return f"In attempt {self.job.attempt} of job {self.job.id}: {self.task.name}({args})"


class Disturbance(Protocol):
    """Something that may happen to a call, before its handler begins or after its work."""

    async def disturb(self, call: Call, point: Point) -> None: ...


class Watch:
    """Watches handlers, and records their calls, results and errors."""

    def __init__(self, disturbances: Iterable[Disturbance] = ()) -> None:
        self._disturbances = list(disturbances)
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self.calls: Counter[str] = Counter()
        self.calls_by_attempt: dict[AttemptKey, Call] = {}
        self.raised: list[tuple[Call, BaseException]] = []
        self.waits: list[BaseException] = []
        self.returned: list[tuple[Call, Any]] = []
        self.on_raise: Callable[[], object] = lambda: None

    def wrap_tasks(self, tasks: Iterable[AnyTask]) -> Registry:
        """Return the same tasks, with handlers that are watched."""
        watched = Registry()
        watched.add(*(self._wrap(task) for task in tasks))
        return watched

    def _wrap(self, task: AnyTask) -> AnyTask:
        """Return the task with a wrapper around its handler. The wrapper always takes a context."""
        if task.settings.batch is not None:
            return self._wrap_batch(task)
        wrapper = self._wrap_async(task) if task.is_async else self._wrap_sync(task)
        watched = task.handled_by(wrapper)
        # Watched handlers run in this process: in a child process nothing would be recorded.
        watched.settings = replace(task.settings, isolate=False)
        watched.__class__ = AsyncContextTask if task.is_async else SyncContextTask
        return watched

    def _wrap_batch(self, task: AnyTask) -> AnyTask:
        wrapper = wrap_async_batch(self, task) if task.is_async else wrap_sync_batch(self, task)
        watched = task.handled_by(wrapper)
        watched.__class__ = BATCH_KINDS[task.is_async, True]
        return watched

    def _wrap_async(self, task: AnyTask) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def handler(ctx: AttemptContext, *args: Any, **kwargs: Any) -> Any:
            call = self.begin(task, ctx)
            try:
                await self.disturb(call, "start")
                value = await task.fn(*_arguments(task, ctx, args), **kwargs)
                await self.disturb(call, "end")
            except BaseException as error:
                if self.is_failure(call, error):
                    self.record_failure(call, error)
                    self.on_raise()
                raise
            self.returned.append((call, value))
            return value

        return handler

    def _wrap_sync(self, task: AnyTask) -> Callable[..., Any]:
        def handler(ctx: AttemptContext, *args: Any, **kwargs: Any) -> Any:
            call = self.begin(task, ctx)
            try:
                self.disturb_from_thread(call, "start")
                value = task.fn(*_arguments(task, ctx, args), **kwargs)
                self.disturb_from_thread(call, "end")
            except BaseException as error:
                if self.is_failure(call, error):
                    self.record_failure(call, error)
                    self.on_raise_from_thread()
                raise
            self.returned.append((call, value))
            return value

        return handler

    def begin(self, task: AnyTask, ctx: AttemptContext) -> Call:
        with self._lock:
            self.calls[task.name] += 1
            call = Call(task, self.calls[task.name], ctx)
            self.calls_by_attempt[call.key] = call
        return call

    async def disturb(self, call: Call, point: Point) -> None:
        for disturbance in self._disturbances:
            await disturbance.disturb(call, point)

    def disturb_from_thread(self, call: Call, point: Point) -> None:
        if self._disturbances:
            asyncio.run_coroutine_threadsafe(self.disturb(call, point), self._loop).result()

    def on_raise_from_thread(self) -> None:
        self._loop.call_soon_threadsafe(self.on_raise)

    def is_failure(self, call: Call, error: BaseException) -> bool:
        """Return whether an error of a handler is a failure.

        The error is no failure if a fault caused it, if the handler was asked to stop, or if the
        job has to wait.
        """
        if suspension(error) is not None:
            self.waits.append(error)
            return False
        may_be_stop = isinstance(error, asyncio.CancelledError | StaleAttempt)
        return not call.is_struck and not (may_be_stop and call.attempt.stop_reason is not None)

    def record_failure(self, call: Call, error: BaseException) -> None:
        error.add_note(call.description())
        self.raised.append((call, error))


def _arguments(task: AnyTask, ctx: AttemptContext, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return (ctx, *args) if task.takes_context else args
