"""What a handler may ask for beside its arguments."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import timedelta
from logging import Logger, LoggerAdapter
from typing import Any, ParamSpec, TypeVar, overload

from penstock.job import Job
from penstock.tasks.budget import Budget

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class SyncContext(ABC):
    """What a sync handler does where an async one would await."""

    @abstractmethod
    def fence(self, conn: Any) -> None:
        """Raise StaleAttempt unless this attempt still owns its job, inside your transaction."""

    @abstractmethod
    def complete(self, conn: Any, result: Any = None) -> None:
        """Complete the job inside your transaction: it is done exactly if your work commits."""

    @abstractmethod
    def budget(
        self, key: str, *, units: float, wait: float | timedelta = 0.0
    ) -> AbstractContextManager[Budget, None]:
        """Units of a budget that all workers share, for one block; see `Context.budget`."""

    @abstractmethod
    def close_bucket(self, key: str, wait: float | timedelta) -> None:
        """Let nobody start with a key, or take from its budget, for so many seconds."""

    @abstractmethod
    def step(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of a function that is run once, whatever becomes of this attempt."""


class Context(ABC):
    """The attempt that a handler runs in. A handler that wants it names it first:

        @app.task
        async def index(ctx: Context, document: int) -> None:
            ctx.progress(0, 10, "reading")

    Callers leave it out: `app.enqueue(index, 42)`. The same calls serve async and sync handlers,
    apart from those that wait: in a sync handler they are `ctx.sync.fence`, `ctx.sync.complete`,
    `ctx.sync.budget`, `ctx.sync.close_bucket` and `ctx.sync.step`.
    """

    @property
    @abstractmethod
    def job(self) -> Job:
        """The job as it was claimed."""

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1 on; it only ever rises."""
        return self.job.attempt

    @property
    @abstractmethod
    def logger(self) -> Logger | LoggerAdapter[Any]:
        """A logger whose lines carry the job's id, task and attempt."""

    @property
    @abstractmethod
    def cancelled(self) -> bool:
        """Whether to stop: a sync handler looks here, an async one gets a CancelledError."""

    @abstractmethod
    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Tell how far the work is. Never waits: the newest state is written within a moment."""

    @abstractmethod
    async def fence(self, conn: Any) -> None:
        """Raise StaleAttempt unless this attempt still owns its job, inside your transaction."""

    @abstractmethod
    async def complete(self, conn: Any, result: Any = None) -> None:
        """Complete the job inside your transaction: it is done exactly if your work commits."""

    @abstractmethod
    def budget(
        self, key: str, *, units: float, wait: float | timedelta = 0.0
    ) -> AbstractAsyncContextManager[Budget, None]:
        """Units of a budget that all workers share, for one block.

            async with ctx.budget("openai", units=1200) as budget:
                answer = await ask(prompt)
                budget.settle(answer.tokens)

        If there are not enough, the attempt ends as a snooze until there are: it gives up its slot
        and counts as nothing. With `wait` it first waits here for up to so many seconds.

        An error that says when to come back (a 429 with a Retry-After, `Retryable(after=…)`) closes
        the budget until then for everybody, gives the units back and ends the attempt the same way.
        """

    @abstractmethod
    async def close_bucket(self, key: str, wait: float | timedelta) -> None:
        """Let nobody start with a key, or take from its budget, for so many seconds."""

    @overload
    async def step(
        self, name: str, fn: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...
    @overload
    async def step(
        self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    @abstractmethod
    async def step(self, name: str, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """The result of a function that is run once, whatever becomes of this attempt.

            text = await ctx.step("extract", extract, document)
            await ctx.step("store", store, document, text)

        The result is kept in the database: an attempt that comes later, after a failure, a crash or
        a wait, gets it without running the function again. It is JSON, read back as the type that
        the function's annotation names.
        """

    @property
    @abstractmethod
    def sync(self) -> SyncContext:
        """What waits, for a handler that does not await."""

    @abstractmethod
    def resource(self, kind: type[R]) -> R:
        """Return what the worker opened for this type; the task must name it in `resources`."""
