"""What a handler may ask for beside its arguments, for one job or for a call that many share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import datetime, timedelta
from logging import Logger, LoggerAdapter
from typing import Any, Generic, ParamSpec, TypeVar, overload

from penstock.backoff import Policy
from penstock.job import Job
from penstock.tasks.handler.budget import Budget
from penstock.tasks.handler.cache import Cache
from penstock.tasks.handler.waits import Pending
from penstock.tasks.workflow import Parent, Workflow

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

    @overload
    def step(
        self, name: str, fn: Callable[..., T], /, *args: Any, cache: Cache, **kwargs: Any
    ) -> T: ...
    @overload
    def step(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @abstractmethod
    def step(
        self,
        name: str,
        fn: Callable[..., Any],
        /,
        *args: Any,
        cache: Any = None,
        **kwargs: Any,
    ) -> Any:
        """The result of a function that is run once; see `Context.step`."""

    @abstractmethod
    def parents(self) -> dict[str, Parent]:
        """What the jobs came to that this one has waited for, by the names of their steps."""

    @abstractmethod
    def extend(self, flow: Workflow) -> dict[str, str]:
        """Add jobs to the workflow that this one belongs to; see `Context.extend`."""

    @abstractmethod
    def sleep(self, length: float | timedelta) -> None:
        """Go on after so many seconds, without holding a slot; see `Context.sleep`."""

    @abstractmethod
    def sleep_until(self, when: datetime) -> None:
        """Go on at a time, without holding a slot until then."""

    @abstractmethod
    def wait_for_event(self, name: str, timeout: float | timedelta | None = None) -> Any:
        """The payload of the next event of a name; see `Context.wait_for_event`."""

    @abstractmethod
    def poll(
        self,
        name: str,
        check: Callable[..., T | Pending | None],
        /,
        *args: Any,
        every: float | timedelta | Policy = 10.0,
        most: int | None = None,
        within: float | timedelta | None = None,
        **kwargs: Any,
    ) -> T:
        """What `check` answers in the end; see `Context.poll`."""


class Context(ABC):
    """The attempt that a handler runs in. A handler that wants it names it first:

        @app.task
        async def index(ctx: Context, document: int) -> None:
            ctx.progress(0, 10, "reading")

    Callers leave it out: `app.enqueue(index, 42)`. The same calls serve async and sync handlers,
    apart from those that wait: in a sync handler they are `ctx.sync.fence`, `ctx.sync.step` and so
    on.
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
        self, name: str, fn: Callable[..., Awaitable[T]], /, *args: Any, cache: Cache, **kwargs: Any
    ) -> T: ...
    @overload
    async def step(
        self, name: str, fn: Callable[..., T], /, *args: Any, cache: Cache, **kwargs: Any
    ) -> T: ...
    @overload
    async def step(
        self, name: str, fn: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...
    @overload
    async def step(
        self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...
    @abstractmethod
    async def step(
        self,
        name: str,
        fn: Callable[..., Any],
        /,
        *args: Any,
        cache: Any = None,
        **kwargs: Any,
    ) -> Any:
        """The result of a function that is run once, whatever becomes of this attempt.

            text = await ctx.step("extract", extract, document)
            await ctx.step("store", store, document, text)

        The result is kept in the database: an attempt that comes later, after a failure, a crash or
        a wait, gets it without running the function again. It is JSON, read back as the type that
        the function's annotation names. With a `cache` other jobs of the tenant share it.
        """

    @abstractmethod
    async def parents(self) -> dict[str, Parent]:
        """What the jobs came to that this one has waited for, by the names of their steps.

        parents = await ctx.parents()
        pages = [each.result for each in parents.values() if each.is_completed]
        """

    @abstractmethod
    async def extend(self, flow: Workflow) -> dict[str, str]:
        """Add jobs to the workflow that this one belongs to; their ids by the names of steps.

            more = Workflow()
            for number in range(pages):
                more.add(parse.prepare(number), after=ctx.job, before="merge")
            await ctx.extend(more)

        Only a job that has not started can be made to wait for a new one. An attempt that comes
        later and makes the same calls adds nothing again.
        """

    @abstractmethod
    async def sleep(self, length: float | timedelta) -> None:
        """Go on after so many seconds, without holding a slot.

            await ctx.step("send", send, address)
            await ctx.sleep(timedelta(days=3))
            await ctx.step("remind", remind, address)

        The attempt ends here, counted as nothing. When the time has come the handler runs again
        from its beginning: steps that are done give their results, and the sleep is over.
        """

    @abstractmethod
    async def sleep_until(self, when: datetime) -> None:
        """Go on at a time, by the database's clock, without holding a slot until then."""

    @abstractmethod
    async def wait_for_event(self, name: str, timeout: float | timedelta | None = None) -> Any:
        """The payload of the next event of a name, waited for without holding a slot.

            answer = await ctx.wait_for_event(f"approved:{order}", timeout=timedelta(days=7))

        The attempt ends here, unless the event was sent before, and the job is blocked until
        somebody calls `app.send_event`. A second wait for the name gets the next newer event.
        After `timeout` seconds it raises EventTimeout.
        """

    @overload
    async def poll(
        self,
        name: str,
        check: Callable[..., Awaitable[T | Pending | None]],
        /,
        *args: Any,
        every: float | timedelta | Policy = 10.0,
        most: int | None = None,
        within: float | timedelta | None = None,
        **kwargs: Any,
    ) -> T: ...
    @overload
    async def poll(
        self,
        name: str,
        check: Callable[..., T | Pending | None],
        /,
        *args: Any,
        every: float | timedelta | Policy = 10.0,
        most: int | None = None,
        within: float | timedelta | None = None,
        **kwargs: Any,
    ) -> T: ...
    @abstractmethod
    async def poll(
        self,
        name: str,
        check: Callable[..., Any],
        /,
        *args: Any,
        every: float | timedelta | Policy = 10.0,
        most: int | None = None,
        within: float | timedelta | None = None,
        **kwargs: Any,
    ) -> Any:
        """What `check` answers once an outside operation is over, asked again and again.

            operation = await ctx.step("start", start, video, key=ctx.job.id)
            words = await ctx.poll("words", look, operation, every=10, within=3600)

        `check` returns the answer, or None for "not yet", or `Pending(after=…)`. Then the attempt
        ends, counted as nothing and holding no slot, and the handler runs again for the next poll.
        An error that the task would retry is a poll without an answer. After `most` polls, or
        `within` so many seconds of the first, it raises PollTimeout.
        """

    @property
    @abstractmethod
    def sync(self) -> SyncContext:
        """What waits, for a handler that does not await."""

    @abstractmethod
    def resource(self, kind: type[R]) -> R:
        """Return what the worker opened for this type; the task must name it in `resources`."""


V_co = TypeVar("V_co", covariant=True)

NO_JOB = (
    "This item was made with Item.of and belongs to no job, so it has no ctx. To run the handler "
    "with one: penstock.testing.run(task, value), or Item.of(value, ctx)."
)


class Item(Generic[V_co]):
    """A job's argument, and the job's own context.

    A test that calls the handler itself makes them with `Item.of`:

        vectors = await embed([Item.of("one"), Item.of("two")])
    """

    __slots__ = ("_ctx", "_value")

    def __init__(self, value: V_co, ctx: Context | None) -> None:
        self._value = value
        self._ctx = ctx

    @staticmethod
    def of(value: T, ctx: Context | None = None) -> Item[T]:
        """An item that belongs to no job, unless a context is given."""
        return Item(value, ctx)

    @property
    def value(self) -> V_co:
        """What the job was enqueued with."""
        return self._value

    @property
    def ctx(self) -> Context:
        """The context of this job alone: its attempt, cancellation, progress, fence, steps."""
        if self._ctx is None:
            raise RuntimeError(NO_JOB)
        return self._ctx

    def __repr__(self) -> str:
        return f"<Item {self._value!r}>"


class SyncBatchContext(ABC):
    """What a sync handler does where an async one would await."""

    @abstractmethod
    def budget(
        self, key: str, *, units: float, wait: float | timedelta = 0.0
    ) -> AbstractContextManager[Budget, None]:
        """Units of a budget that all workers share, for one block; see `Context.budget`."""

    @abstractmethod
    def close_bucket(self, key: str, wait: float | timedelta) -> None:
        """Let nobody start with a key, or take from its budget, for so many seconds."""


class BatchContext(ABC):
    """The call that a handler's items share. A handler that wants it names it first:

        @app.task(batch=Batch(size=64), resources=(Model,))
        async def embed(ctx: BatchContext, items: list[Item[str]]) -> list[list[float]]:
            return await ctx.resource(Model).embed([item.value for item in items])

    What belongs to one job is in that item's own context: `item.ctx`.
    """

    @property
    @abstractmethod
    def logger(self) -> Logger | LoggerAdapter[Any]:
        """A logger whose lines carry the task and how many items the call has."""

    @property
    @abstractmethod
    def cancelled(self) -> bool:
        """Whether to stop: no item of the call is wanted any more."""

    @abstractmethod
    def budget(
        self, key: str, *, units: float, wait: float | timedelta = 0.0
    ) -> AbstractAsyncContextManager[Budget, None]:
        """Units of a budget for the whole call; if there are not enough, all its items wait."""

    @abstractmethod
    async def close_bucket(self, key: str, wait: float | timedelta) -> None:
        """Let nobody start with a key, or take from its budget, for so many seconds."""

    @property
    @abstractmethod
    def sync(self) -> SyncBatchContext:
        """What waits, for a handler that does not await."""

    @abstractmethod
    def resource(self, kind: type[R]) -> R:
        """Return what the worker opened for this type; the task must name it in `resources`."""
