"""The contexts that a handler may ask for: `Context` for one job, `BatchContext` for many."""

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
    """Blocking versions of the async methods of a context, for a plain `def`: `ctx.sync`."""

    @abstractmethod
    def fence(self, conn: Any) -> None:
        """Raise StaleAttempt unless this attempt still owns its job; see `Context.fence`."""

    @abstractmethod
    def complete(self, conn: Any, result: Any = None) -> None:
        """Complete the job inside your transaction; see `Context.complete`."""

    @abstractmethod
    def budget(
        self, key: str, *, units: float, wait: float | timedelta = 0.0
    ) -> AbstractContextManager[Budget, None]:
        """Reserve units of a budget for one block; see `Context.budget`."""

    @abstractmethod
    def close_bucket(self, key: str, wait: float | timedelta) -> None:
        """Close the limit of a key for all jobs; see `Context.close_bucket`."""

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
        """Run a function once, and return its result; see `Context.step`."""

    @abstractmethod
    def parents(self) -> dict[str, Parent]:
        """Return the jobs that this job has waited for, by the names of their steps."""

    @abstractmethod
    def extend(self, flow: Workflow) -> dict[str, str]:
        """Add jobs to the workflow of this job; see `Context.extend`."""

    @abstractmethod
    def sleep(self, length: float | timedelta) -> None:
        """Suspend the job for `length` seconds; see `Context.sleep`."""

    @abstractmethod
    def sleep_until(self, when: datetime) -> None:
        """Suspend the job until a time; see `Context.sleep_until`."""

    @abstractmethod
    def wait_for_event(self, name: str, timeout: float | timedelta | None = None) -> Any:
        """Wait for an event, and return its payload; see `Context.wait_for_event`."""

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
        """Poll an outside operation until it is over; see `Context.poll`."""


class Context(ABC):
    """The attempt that a handler runs in. A handler gets it as its first parameter:

        @app.task
        async def index(ctx: Context, document: int) -> None:
            ctx.progress(0, 10, "reading")

    Callers leave out the context: `app.enqueue(index, 42)`. A handler that is a plain `def` calls
    the blocking versions of async methods: `ctx.sync.fence`, `ctx.sync.step` and so on.
    """

    @property
    @abstractmethod
    def job(self) -> Job:
        """The job, as it was when the worker claimed it."""

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1 on. It never decreases."""
        return self.job.attempt

    @property
    @abstractmethod
    def logger(self) -> Logger | LoggerAdapter[Any]:
        """A logger that adds the job's id, its task and the attempt to each line."""

    @property
    @abstractmethod
    def cancelled(self) -> bool:
        """Whether the handler should stop.

        A handler that is a plain `def` must check this now and then. An `async def` handler is
        cancelled with a CancelledError.
        """

    @abstractmethod
    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Report how far the work is. This returns at once; the latest report is stored soon."""

    @abstractmethod
    async def fence(self, conn: Any) -> None:
        """Raise StaleAttempt unless this attempt still owns its job.

        Call this inside your transaction. No other attempt can begin until the transaction ends.
        """

    @abstractmethod
    async def complete(self, conn: Any, result: Any = None) -> None:
        """Complete the job as part of your transaction: the job completes only if you commit.

        Raises StaleAttempt if this attempt no longer owns its job.
        """

    @abstractmethod
    def budget(
        self, key: str, *, units: float, wait: float | timedelta = 0.0
    ) -> AbstractAsyncContextManager[Budget, None]:
        """Reserve units of a budget, which all workers share, for one block.

            async with ctx.budget("openai", units=1200) as budget:
                answer = await ask(prompt)
                budget.settle(answer.tokens)

        If the budget has too few units, the attempt ends without a failure, and the job runs again
        once there are enough. The job takes no slot in the meantime. With `wait`, the attempt
        first waits up to that many seconds for the units.

        If the block raises an error that says when to try again (a 429 with a Retry-After,
        `Retryable(after=…)`), the budget is closed until then for all jobs. The units go back to
        the budget, and the attempt ends without a failure.
        """

    @abstractmethod
    async def close_bucket(self, key: str, wait: float | timedelta) -> None:
        """Close the limit of a key for all jobs, for `wait` seconds.

        Until then, no job that names the key in its `limits` starts, and no handler can reserve
        units of the budget with this key.
        """

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
        """Run a function once for all attempts of the job, and return the function's result.

            text = await ctx.step("extract", extract, document)
            await ctx.step("store", store, document, text)

        The result is stored in the database as JSON. A later attempt, after a failure, a crash or
        a wait, gets the stored result without running the function again. The result is decoded
        into the type of the function's return annotation. With a `cache`, other jobs of the tenant
        use the same result.
        """

    @abstractmethod
    async def parents(self) -> dict[str, Parent]:
        """Return the jobs that this job has waited for, by the names of their steps.

        parents = await ctx.parents()
        pages = [each.result for each in parents.values() if each.is_completed]
        """

    @abstractmethod
    async def extend(self, flow: Workflow) -> dict[str, str]:
        """Add jobs to the workflow of this job, and return their ids by the names of their steps.

            more = Workflow()
            for number in range(pages):
                more.add(parse.prepare(number), after=ctx.job, before="merge")
            await ctx.extend(more)

        Only a job that has not started can wait for a new job. If a later attempt makes the same
        call, the jobs are not added again.
        """

    @abstractmethod
    async def sleep(self, length: float | timedelta) -> None:
        """Suspend the job for `length` seconds. It takes no slot in the meantime.

            await ctx.step("send", send, address)
            await ctx.sleep(timedelta(days=3))
            await ctx.step("remind", remind, address)

        This call ends the attempt, which does not count as a failure. After the wait, the handler
        runs again from its beginning. Then steps that are done return their stored results, and
        this call returns at once.
        """

    @abstractmethod
    async def sleep_until(self, when: datetime) -> None:
        """Suspend the job until a time by the database's clock. It takes no slot until then."""

    @abstractmethod
    async def wait_for_event(self, name: str, timeout: float | timedelta | None = None) -> Any:
        """Wait for the next event with this name, and return the payload of the event.

            answer = await ctx.wait_for_event(f"approved:{order}", timeout=timedelta(days=7))

        If no such event was sent yet, the attempt ends, and the job is blocked, without a slot,
        until somebody calls `app.send_event`. Then the handler runs again from its beginning, and
        this call returns the payload. A second wait for the same name gets the next newer event.
        If no event is sent within `timeout` seconds, this raises EventTimeout.
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
        """Call `check` again and again until an outside operation is over, and return its answer.

            operation = await ctx.step("start", start, video, key=ctx.job.id)
            words = await ctx.poll("words", look, operation, every=10, within=3600)

        `check` returns the answer, or None or `Pending(after=…)` if there is no answer yet. Without
        an answer, the attempt ends without a failure, and the handler runs again for the next poll.
        The job takes no slot in between. An error that the task would retry counts as a poll
        without an answer. After `most` polls, or `within` seconds after the first poll, this raises
        PollTimeout.
        """

    @property
    @abstractmethod
    def sync(self) -> SyncContext:
        """Blocking versions of the async methods, for a handler that is a plain `def`."""

    @abstractmethod
    def resource(self, kind: type[R]) -> R:
        """Return the resource of this type, which the worker has opened.

        The task must name the type: `@app.task(resources=(Mailer,))`.
        """


V_co = TypeVar("V_co", covariant=True)

NO_JOB = (
    "This item was made with Item.of and belongs to no job, so it has no ctx. To run the handler "
    "with one: penstock.testing.run(task, value), or Item.of(value, ctx)."
)


class Item(Generic[V_co]):
    """One of the jobs that a batch handler gets in a call: its argument, and its own context.

    A test that calls the handler directly makes items with `Item.of`:

        vectors = await embed([Item.of("one"), Item.of("two")])
    """

    __slots__ = ("_ctx", "_value")

    def __init__(self, value: V_co, ctx: Context | None) -> None:
        self._value = value
        self._ctx = ctx

    @staticmethod
    def of(value: T, ctx: Context | None = None) -> Item[T]:
        """Return an item for a test.

        The item belongs to no job, and has a context only if you pass one.
        """
        return Item(value, ctx)

    @property
    def value(self) -> V_co:
        """The argument with which the job was enqueued."""
        return self._value

    @property
    def ctx(self) -> Context:
        """The context of this job: its attempt, cancellation, progress, fence and steps."""
        if self._ctx is None:
            raise RuntimeError(NO_JOB)
        return self._ctx

    def __repr__(self) -> str:
        return f"<Item {self._value!r}>"


class SyncBatchContext(ABC):
    """Blocking versions of the async methods of a batch context, for a plain `def`: `ctx.sync`."""

    @abstractmethod
    def budget(
        self, key: str, *, units: float, wait: float | timedelta = 0.0
    ) -> AbstractContextManager[Budget, None]:
        """Reserve units of a budget for the whole call; see `Context.budget`."""

    @abstractmethod
    def close_bucket(self, key: str, wait: float | timedelta) -> None:
        """Close the limit of a key for all jobs; see `Context.close_bucket`."""


class BatchContext(ABC):
    """The context of a call with many items. A batch handler gets it as its first parameter:

        @app.task(batch=Batch(size=64), resources=(Model,))
        async def embed(ctx: BatchContext, items: list[Item[str]]) -> list[list[float]]:
            return await ctx.resource(Model).embed([item.value for item in items])

    The context of a single job is `item.ctx`.
    """

    @property
    @abstractmethod
    def logger(self) -> Logger | LoggerAdapter[Any]:
        """A logger that adds the task and the number of items to each line."""

    @property
    @abstractmethod
    def cancelled(self) -> bool:
        """Whether the handler should stop, because no item of the call is needed any more."""

    @abstractmethod
    def budget(
        self, key: str, *, units: float, wait: float | timedelta = 0.0
    ) -> AbstractAsyncContextManager[Budget, None]:
        """Reserve units of a budget for the whole call. If there are too few, all items wait."""

    @abstractmethod
    async def close_bucket(self, key: str, wait: float | timedelta) -> None:
        """Close the limit of a key for all jobs; see `Context.close_bucket`."""

    @property
    @abstractmethod
    def sync(self) -> SyncBatchContext:
        """Blocking versions of the async methods, for a handler that is a plain `def`."""

    @abstractmethod
    def resource(self, kind: type[R]) -> R:
        """Return the resource of this type, which the worker has opened.

        The task must name the type: `@app.task(resources=(Model,))`.
        """
