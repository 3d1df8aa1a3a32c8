"""`@task`: makes a task of a function."""

from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, Unpack, cast, overload

from penstock.tasks.context import Context
from penstock.tasks.settings import TaskValues
from penstock.tasks.task import (
    AsyncContextTask,
    AsyncTask,
    SyncContextTask,
    SyncTask,
    Task,
    make_task,
)

P = ParamSpec("P")
T = TypeVar("T")
Register = Callable[[Task[..., Any]], None]


class _Unknown:
    """A type that only parameters of type Any or object accept, and those without a type."""


class TaskDecorator:
    """Makes a task of a function, with or without settings.

        @task
        async def greet(name: str) -> str: ...

        @task(queue="mail", max_attempts=3, discard_on=(ValueError,))
        def send(ctx: Context, address: str) -> None: ...

    An app has one of its own that also registers what it makes.
    """

    def __init__(self, register: Register | None = None, values: TaskValues | None = None) -> None:
        self._register = register
        self._values: TaskValues = values or {}

    # The overlaps are meant: the first fit wins. A parameter that takes anything would also take a
    # context, so such functions come first, and a checker lets their arguments pass unchecked.
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

    def __call__(self, fn: Callable[..., Any] | None = None, **values: Any) -> Any:
        merged = cast(TaskValues, {**self._values, **values})
        if fn is None:
            return TaskDecorator(self._register, merged)
        made = make_task(fn, merged)
        if self._register is not None:
            self._register(made)
        return made


task: Final = TaskDecorator()
