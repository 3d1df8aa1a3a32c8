"""The decorator `@task`, which turns a function into a task."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, Unpack, cast, overload

from penstock.tasks.handler.context import BatchContext, Context, Item
from penstock.tasks.settings import Batch, BatchTaskValues, TaskValues
from penstock.tasks.task import (
    AsyncBatchTask,
    AsyncContextBatchTask,
    AsyncContextTask,
    AsyncTask,
    ItemOutcome,
    SyncBatchTask,
    SyncContextBatchTask,
    SyncContextTask,
    SyncTask,
    Task,
    make_task,
)

P = ParamSpec("P")
T = TypeVar("T")
V = TypeVar("V")
Register = Callable[[Task[..., Any]], None]


class _Unknown:
    """A type for overloads: only parameters that accept any value accept a value of this type."""


class TaskDecorator:
    """Turn a function into a task, with or without settings.

        @task
        async def greet(name: str) -> str: ...

        @task(queue="mail", max_attempts=3, discard_on=(ValueError,))
        def send(ctx: Context, address: str) -> None: ...

    `app.task` also registers the task with the app. A task made with `penstock.task` is registered
    with `app.include`.
    """

    def __init__(self, register: Register | None = None, values: TaskValues | None = None) -> None:
        self._register = register
        self._values: TaskValues = values or {}

    # The overloads overlap on purpose: the first that fits wins. A parameter that takes anything
    # also takes a context, so such functions come first. Their arguments are not type-checked.
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, fn: Callable[Concatenate[_Unknown, ...], Coroutine[Any, Any, T]], /
    ) -> AsyncTask[..., T]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, fn: Callable[Concatenate[Context, P], Coroutine[Any, Any, T]], /
    ) -> AsyncContextTask[P, T]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, fn: Callable[P, Coroutine[Any, Any, T]], /
    ) -> AsyncTask[P, T]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[_Unknown, ...], T], /) -> SyncTask[..., T]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Context, P], T], /) -> SyncContextTask[P, T]: ...
    @overload
    def __call__(self, fn: Callable[P, T], /) -> SyncTask[P, T]: ...
    @overload
    def __call__(self, **values: Unpack[TaskValues]) -> "TaskDecorator": ...
    @overload
    def __call__(self, *, batch: Batch, **values: Unpack[TaskValues]) -> "BatchTaskDecorator": ...

    def __call__(self, fn: Callable[..., Any] | None = None, **values: Any) -> Any:
        merged = cast(BatchTaskValues, {**self._values, **values})
        if fn is None:
            kind = BatchTaskDecorator if "batch" in merged else TaskDecorator
            return kind(self._register, merged)
        return _make(fn, merged, self._register)


class BatchTaskDecorator:
    """Turn a function that runs many jobs in one call into a task: `@task(batch=Batch(size=64))`.

    The function takes a list with an item for each job, and returns a list with their results in
    the same order. Each job has one argument, which is the value of its item.
    """

    def __init__(self, register: Register | None, values: TaskValues) -> None:
        self._register = register
        self._values = values

    @overload
    def __call__(
        self,
        fn: Callable[[BatchContext, list[Item[V]]], Coroutine[Any, Any, Sequence[T | ItemOutcome]]],
        /,
    ) -> AsyncContextBatchTask[V, T]: ...
    @overload
    def __call__(
        self, fn: Callable[[list[Item[V]]], Coroutine[Any, Any, Sequence[T | ItemOutcome]]], /
    ) -> AsyncBatchTask[V, T]: ...
    @overload
    def __call__(
        self, fn: Callable[[BatchContext, list[Item[V]]], Sequence[T | ItemOutcome]], /
    ) -> SyncContextBatchTask[V, T]: ...
    @overload
    def __call__(
        self, fn: Callable[[list[Item[V]]], Sequence[T | ItemOutcome]], /
    ) -> SyncBatchTask[V, T]: ...

    def __call__(self, fn: Callable[..., Any]) -> Any:
        return _make(fn, self._values, self._register)


def _make(fn: Callable[..., Any], values: TaskValues, register: Register | None) -> Task[..., Any]:
    new_task = make_task(fn, values)
    if register is not None:
        register(new_task)
    return new_task


task: Final = TaskDecorator()
