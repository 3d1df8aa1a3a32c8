"""The contexts that the worker gives to handlers: async, sync and micro-batched."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, TypeVar

from penstock.backoff import Policy
from penstock.errors import StaleAttempt, WorkflowRefused
from penstock.job import Job
from penstock.store import Executor, Store, adapt, drive, errors, is_in_transaction
from penstock.store.workflows import encode_steps
from penstock.tasks import BatchContext, Context, SyncBatchContext, SyncContext, encode_result
from penstock.tasks.handler.waits import PollSettings, event_wait
from penstock.tasks.options import CHECKS, limit_key, seconds
from penstock.tasks.workflow import Parent, Workflow, by_step
from penstock.worker.attempt import Attempt
from penstock.worker.run.budgets import BudgetBlock, Budgets, SyncBudgetBlock
from penstock.worker.run.items import SharedCall
from penstock.worker.run.journal import Journal, stale_error
from penstock.worker.run.resources import OpenResources
from penstock.worker.run.steps import SavedSteps, StepRunner
from penstock.worker.run.threads import Bridge
from penstock.worker.run.waits import Poller, sleep, wait_for_event


class SyncAttempt(SyncContext):
    """The context of an attempt in a thread. It runs coroutines on the worker's loop."""

    def __init__(self, context: AttemptContext, bridge: Bridge) -> None:
        self._context = context
        self._bridge = bridge

    def fence(self, conn: Any) -> None:
        drive(self._context.fence_on(adapt(conn, "blocking")))

    def complete(self, conn: Any, result: Any = None) -> None:
        drive(self._context.complete_on(adapt(conn, "blocking"), result))

    def budget(self, key: str, *, units: float, wait: float | timedelta = 0.0) -> SyncBudgetBlock:
        return SyncBudgetBlock(self._bridge, self._context.budget(key, units=units, wait=wait))

    def close_bucket(self, key: str, wait: float | timedelta) -> None:
        self._bridge.run(self._context.close_bucket(key, wait))

    def step(
        self,
        name: str,
        fn: Callable[..., Any],
        /,
        *args: Any,
        cache: Any = None,
        **kwargs: Any,
    ) -> Any:
        runner = StepRunner(self._context.saved_steps, cache)
        return runner.run_blocking(self._bridge, name, fn, args, kwargs)

    def parents(self) -> dict[str, Parent]:
        return self._bridge.run(self._context.read_parents())

    def extend(self, flow: Workflow) -> dict[str, str]:
        return self._bridge.run(self._context.add_steps(flow))

    def sleep(self, length: float | timedelta) -> None:
        self._bridge.run(sleep(self._context.saved_steps, seconds=seconds("length", length)))

    def sleep_until(self, when: datetime) -> None:
        until = CHECKS["run_at"]("when", when)
        self._bridge.run(sleep(self._context.saved_steps, until=until))

    def wait_for_event(self, name: str, timeout: float | timedelta | None = None) -> Any:
        return self._bridge.run(
            wait_for_event(self._context.saved_steps, *event_wait(name, timeout))
        )

    def poll(
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
        poller = Poller(self._context.saved_steps, PollSettings(every, most, within))
        return poller.run_blocking(self._bridge, name, check, args, kwargs)


R = TypeVar("R")

logger = logging.getLogger("penstock.job")

COMPLETED_ALREADY = (
    "This attempt has already completed its job. Call ctx.complete once in an attempt, and no "
    "ctx.fence after it."
)
NO_TRANSACTION = (
    "ctx.fence holds the job until your transaction ends, but your connection has no open "
    "transaction. Begin one first."
)

NO_WORKFLOW = (
    "Job {job} belongs to no workflow to which jobs could be added. Start a workflow with "
    "app.start_workflow, or enqueue the jobs."
)

Report = Callable[[Attempt, float, float | None, str | None], None]


class JobLogger(logging.LoggerAdapter[logging.Logger]):
    """Adds the job to each log line: in the message for people, as fields for programs."""

    def process(self, msg: Any, kwargs: Any) -> tuple[Any, Any]:
        fields = {**(self.extra or {}), **kwargs.get("extra", {})}
        kwargs["extra"] = fields
        return f"[{fields['task']} {fields['job_id']}#{fields['attempt']}] {msg}", kwargs


class AttemptContext(Context):
    """One attempt's job, logger, progress, fence, budgets, steps and resources."""

    def __init__(
        self,
        attempt: Attempt,
        store: Store,
        resources: OpenResources,
        budgets: Budgets,
        journal: Journal,
        bridge: Bridge,
        report: Report,
    ) -> None:
        self._attempt = attempt
        self._store = store
        self._resources = resources
        self._budgets = budgets
        self._journal = journal
        self._bridge = bridge
        self._report = report
        self._logger: JobLogger | None = None
        self._saved_steps: SavedSteps | None = None
        self._extensions = 0

    @property
    def job(self) -> Job:
        return self._attempt.job.public_job

    @property
    def attempt(self) -> int:
        return self._attempt.job.number

    @property
    def logger(self) -> JobLogger:
        if self._logger is None:
            job = self._attempt.job
            fields = {
                "job_id": str(job.id),
                "task": job.task,
                "queue": job.queue,
                "attempt": job.number,
            }
            self._logger = JobLogger(logger, fields)
        return self._logger

    @property
    def cancelled(self) -> bool:
        return self._attempt.stop_reason is not None

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        self._report(self._attempt, done, total, message)

    @property
    def sync(self) -> SyncContext:
        return SyncAttempt(self, self._bridge)

    @property
    def saved_steps(self) -> SavedSteps:
        """The steps that the job's attempts have saved. A job without steps never reads them."""
        if self._saved_steps is None:
            self._saved_steps = SavedSteps(self._attempt, self._journal)
        return self._saved_steps

    # These are not `async def`: a sync handler that forgets `.sync` awaits nothing, and must get an
    # error.
    def fence(self, conn: Any) -> Coroutine[Any, Any, None]:
        return self.fence_on(adapt(conn))

    def complete(self, conn: Any, result: Any = None) -> Coroutine[Any, Any, None]:
        return self.complete_on(adapt(conn), result)

    async def fence_on(self, on: Executor) -> None:
        await self._hold(on)
        if not await is_in_transaction(on):
            raise RuntimeError(NO_TRANSACTION)

    async def _hold(self, on: Executor) -> None:
        job = self._attempt.job
        with self._refusing():
            await self._store.fence(on, job.id, job.token)

    async def complete_on(self, on: Executor, result: Any = None) -> None:
        job = self._attempt.job
        stored = None if result is None else encode_result(result)
        with self._refusing():
            is_settled = await self._store.complete(on, job.id, job.token, stored)
        if not is_settled:
            raise StaleAttempt(str(job.id), job.number)
        self._attempt.completed = True

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """Turn the fence's database errors into errors for handlers."""
        try:
            yield
        except Exception as error:
            if errors.is_state(error, errors.COMPLETED_ALREADY):
                raise RuntimeError(COMPLETED_ALREADY) from error
            if refused := stale_error(self._attempt, error):
                raise refused from error
            raise

    def budget(self, key: str, *, units: float, wait: float | timedelta = 0.0) -> BudgetBlock:
        return BudgetBlock(self._budgets, self._attempt, key, units, wait)

    async def close_bucket(self, key: str, wait: float | timedelta) -> None:
        await self._budgets.close(limit_key("key", key), seconds("wait", wait))

    def step(
        self,
        name: str,
        fn: Callable[..., Any],
        /,
        *args: Any,
        cache: Any = None,
        **kwargs: Any,
    ) -> Coroutine[Any, Any, Any]:
        self._expect_async("step")
        return StepRunner(self.saved_steps, cache).run(name, fn, args, kwargs)

    def parents(self) -> Coroutine[Any, Any, dict[str, Parent]]:
        self._expect_async("parents")
        return self.read_parents()

    async def read_parents(self) -> dict[str, Parent]:
        return by_step(await self._journal.parents(self._attempt))

    def extend(self, flow: Workflow) -> Coroutine[Any, Any, dict[str, str]]:
        self._expect_async("extend")
        return self.add_steps(flow)

    async def add_steps(self, flow: Workflow) -> dict[str, str]:
        if self.job.workflow is None:
            raise WorkflowRefused(NO_WORKFLOW.format(job=self.job.id))
        if not len(flow):
            return {}
        # A later attempt that does the same makes the same calls in the same order.
        self._extensions += 1
        added = await self._journal.extend(self._attempt, self._extensions, encode_steps(flow))
        return {step.name: str(job.id) for step, job in zip(flow.in_order(), added, strict=True)}

    def sleep(self, length: float | timedelta) -> Coroutine[Any, Any, None]:
        self._expect_async("sleep")
        return sleep(self.saved_steps, seconds=seconds("length", length))

    def sleep_until(self, when: datetime) -> Coroutine[Any, Any, None]:
        self._expect_async("sleep_until")
        return sleep(self.saved_steps, until=CHECKS["run_at"]("when", when))

    def wait_for_event(
        self, name: str, timeout: float | timedelta | None = None
    ) -> Coroutine[Any, Any, Any]:
        self._expect_async("wait_for_event")
        return wait_for_event(self.saved_steps, *event_wait(name, timeout))

    def poll(
        self,
        name: str,
        check: Callable[..., Any],
        /,
        *args: Any,
        every: float | timedelta | Policy = 10.0,
        most: int | None = None,
        within: float | timedelta | None = None,
        **kwargs: Any,
    ) -> Coroutine[Any, Any, Any]:
        self._expect_async("poll")
        return Poller(self.saved_steps, PollSettings(every, most, within)).run(
            name, check, args, kwargs
        )

    def _expect_async(self, call: str) -> None:
        if not self._attempt.task.is_async:
            raise RuntimeError(f"A sync handler cannot await. Use `ctx.sync.{call}(…)` instead.")

    def resource(self, kind: type[R]) -> R:
        return self._resources.get(kind)


class CallLogger(logging.LoggerAdapter[logging.Logger]):
    """Adds the shared call to each log line: in the message for people, as fields for programs."""

    def process(self, msg: Any, kwargs: Any) -> tuple[Any, Any]:
        fields = {**(self.extra or {}), **kwargs.get("extra", {})}
        kwargs["extra"] = fields
        return f"[{fields['task']}, items: {fields['items']}] {msg}", kwargs


class CallContext(BatchContext):
    """The logger, budgets and resources of one shared call."""

    def __init__(
        self,
        call: SharedCall,
        items: int,
        resources: OpenResources,
        budgets: Budgets,
        bridge: Bridge,
    ) -> None:
        self._call = call
        self._items = items
        self._resources = resources
        self._budgets = budgets
        self._bridge = bridge

    @property
    def logger(self) -> CallLogger:
        name, queue = self._call.task.name, self._call.state.name
        return CallLogger(logger, {"task": name, "queue": queue, "items": self._items})

    @property
    def cancelled(self) -> bool:
        return self._call.stop_reason is not None

    def budget(self, key: str, *, units: float, wait: float | timedelta = 0.0) -> BudgetBlock:
        return BudgetBlock(self._budgets, self._call, key, units, wait)

    async def close_bucket(self, key: str, wait: float | timedelta) -> None:
        await self._budgets.close(limit_key("key", key), seconds("wait", wait))

    @property
    def sync(self) -> SyncBatchContext:
        return SyncCall(self, self._bridge)

    def resource(self, kind: type[R]) -> R:
        return self._resources.get(kind)


class SyncCall(SyncBatchContext):
    """A shared call's context in a thread. It runs coroutines on the worker's loop."""

    def __init__(self, context: CallContext, bridge: Bridge) -> None:
        self._context = context
        self._bridge = bridge

    def budget(self, key: str, *, units: float, wait: float | timedelta = 0.0) -> SyncBudgetBlock:
        return SyncBudgetBlock(self._bridge, self._context.budget(key, units=units, wait=wait))

    def close_bucket(self, key: str, wait: float | timedelta) -> None:
        self._bridge.run(self._context.close_bucket(key, wait))
