"""A submitted call, and the counts of a pool's calls."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import copy_context
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from penstock.local_pool.loop import running_loop
from penstock.tasks import Task
from penstock.tasks.handler.failure import describe_unawaited


class Unawaited(TypeError):
    """A function that is not async has returned an awaitable."""

    def __init__(self, value: Awaitable[object]) -> None:
        super().__init__(describe_unawaited("It", value, "submit an `async def` that awaits it"))


class SubmittedCall:
    """A function and its arguments, to be called in the submitter's context."""

    __slots__ = ("args", "context", "fn", "is_async", "kwargs", "loop", "task")

    def __init__(
        self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.fn = fn
        self.args = args
        self.kwargs = kwargs
        self.is_async = is_async(fn)
        self.context = copy_context()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.task: asyncio.Task[None] | None = None

    @property
    def may_end(self) -> bool:
        """Whether the call can end while this thread waits.

        An async call cannot end if its loop has stopped, or if this thread runs that loop.
        """
        if not self.is_async or self.loop is None:
            return True
        return self.loop.is_running() and self.loop is not running_loop()

    def run(self) -> None:
        """Call a function that is not async, in this thread."""
        value = self.context.run(self.fn, *self.args, **self.kwargs)
        if isinstance(value, Awaitable):
            raise Unawaited(value)

    async def run_async(self) -> None:
        """Await an async function. Its task already has the submitter's context."""
        await self.fn(*self.args, **self.kwargs)

    def __repr__(self) -> str:
        return getattr(self.fn, "__qualname__", None) or type(self.fn).__name__


@dataclass(frozen=True, slots=True)
class PoolCounts:
    """What became of the calls so far. `submitted` is the sum of all other counts."""

    submitted: int = 0
    done: int = 0
    failed: int = 0
    dropped: int = 0
    waiting: int = 0
    running: int = 0


def is_async(fn: object) -> bool:
    """Return whether a function runs on an event loop. Raise TypeError if it cannot be called."""
    if isinstance(fn, FunctionType):
        return inspect.iscoroutinefunction(fn)
    if isinstance(fn, Task):
        return fn.is_async
    if not callable(fn):
        raise _not_callable(fn)
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(type(fn).__call__)


def _not_callable(value: object) -> TypeError:
    if isinstance(value, Coroutine):
        value.close()
        return TypeError(
            "submit takes the function and its arguments, not a coroutine: "
            "pool.submit(track, 42), not pool.submit(track(42))."
        )
    return TypeError(f"submit takes a function and its arguments, not {value!r}.")
