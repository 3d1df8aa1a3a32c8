"""Runs attempts: finds the task, decodes the arguments, calls the handler, decides the outcome.

Async handlers run on the loop. On Python 3.12 and later they start eagerly, so a handler that never
waits is done before it is ever scheduled. Sync handlers run in threads.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from contextvars import copy_context
from functools import partial
from typing import Any

from penstock.config import JobLog
from penstock.connect.tracing import Trace, Tracing
from penstock.errors import ArgumentsDoNotFit
from penstock.job import AttemptError
from penstock.outcome import Parked, ParkedReason, Released
from penstock.store import ClaimedJob, Settlement, Store
from penstock.tasks import Context, Registry, Task, describe_error
from penstock.tasks.reader import Call
from penstock.tasks.settings import Process
from penstock.worker.attempt import Attempt
from penstock.worker.children.assignment import LostJob, NoProcess, NotStarted
from penstock.worker.children.messages import AttemptEnded
from penstock.worker.children.pool import ChildPool
from penstock.worker.claim.micro_batch import GatheredJob, ItemGroup, group_key
from penstock.worker.claim.queue import QueueState
from penstock.worker.run.budgets import Budgets
from penstock.worker.run.calls import SharedCalls
from penstock.worker.run.context import AttemptContext, Report
from penstock.worker.run.items import SharedCall
from penstock.worker.run.journal import Journal
from penstock.worker.run.outcomes import Outcomes, Settle
from penstock.worker.run.resources import OpenResources
from penstock.worker.run.suspects import MarkRefused, Suspects
from penstock.worker.run.threads import Bridge, call_in_thread
from penstock.worker.timing import DEFAULT_TIMING, Timing

logger = logging.getLogger("penstock.worker")

Body = Callable[[], Coroutine[Any, Any, None]]


class Executor:
    """Starts attempts and hands their outcomes to the settler."""

    def __init__(
        self,
        tasks: Registry,
        store: Store,
        resources: OpenResources,
        budgets: Budgets,
        journal: Journal,
        report: Report,
        settle: Settle,
        *,
        tracing: Tracing | None = None,
        worker: str,
        threads: int,
        park_limit: float,
        log: JobLog | None = None,
        child_pool: ChildPool | None = None,
        suspects: Suspects | None = None,
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        self._tasks = tasks
        self._store = store
        self._resources = resources
        self._budgets = budgets
        self._journal = journal
        self._bridge = Bridge()
        self._report = report
        self._tracing = tracing
        self._worker = worker
        self._child_pool = child_pool
        # None where attempts come from no claim of this process: they are marked already.
        self._suspects = suspects
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="penstock")
        settle_outcome = settle if tracing is None else partial(_settle_traced, settle)
        self._outcomes = Outcomes(
            budgets,
            settle_outcome,
            worker=worker,
            park_limit=park_limit,
            park_shortest=timing.parked,
            log=log or JobLog(),
        )
        self._calls = SharedCalls(
            self._outcomes,
            self._context,
            self._threads,
            resources,
            budgets,
            journal,
            self._bridge,
        )

    def start(self, job: ClaimedJob, state: QueueState) -> Attempt | None:
        """Start an attempt. Return None if this worker cannot run the job and puts it back."""
        task = self._tasks.find(job.task)
        if task is None:
            self._park(job, Parked("unknown_task"))
            return None
        if (process := self._process(task, job)) is not None:
            attempt = Attempt(job, task, state)
            # The child keeps the time, from when the handler begins.
            child = partial(self._in_child, attempt, process)
            attempt.future = self._loop.create_task(self._trace(attempt, child))
            return attempt
        if self._suspects is not None and job.row["suspect"]:
            return self._start_suspect(task, job, state, self._suspects)
        if (call := self._decode_or_park(task, job)) is None:
            return None
        if task.settings.batch is not None:
            return self._calls.start(
                task, [GatheredJob(job, *call[0])], state, self._worker
            ).attempts[0]
        job.worker = self._worker
        attempt = Attempt(job, task, state)
        body = self._trace(attempt, partial(self._handler(task), attempt, call))
        if sys.version_info >= (3, 12):
            attempt.future = asyncio.Task(body, loop=self._loop, eager_start=True)
            if attempt.future.done():
                return attempt
        else:
            attempt.future = self._loop.create_task(body)
        if job.timeout is not None:
            attempt.start_timeout(self._loop, job.timeout)
        return attempt

    def _handler(
        self, task: Task[Any, Any]
    ) -> Callable[[Attempt, Call], Coroutine[Any, Any, None]]:
        return self._on_loop if task.is_async else self._in_thread

    def _start_suspect(
        self, task: Task[Any, Any], job: ClaimedJob, state: QueueState, suspects: Suspects
    ) -> Attempt | None:
        """Start a suspect in this process. No code of the user runs before the suspect is marked.

        A micro-batched item gets a call of its own, so it needs no key.
        """
        if not self._has_resources(task, job):
            return None
        attempt: Attempt
        if task.settings.batch is not None:
            item = self._calls.prepare(task, [GatheredJob(job, None)], state, self._worker)
            [attempt] = item.attempts
            body = partial(self._run_item, item)
            attempt.future = item.future = self._loop.create_task(
                self._run_marked(attempt, body, suspects)
            )
            return attempt
        job.worker = self._worker
        attempt = Attempt(job, task, state)
        body = partial(self._run_traced, attempt)
        attempt.future = self._loop.create_task(self._run_marked(attempt, body, suspects))
        return attempt

    async def _run_item(self, item: SharedCall, call: Call) -> None:
        [value], _ = call
        await self._calls.run_single(item, value)

    async def _run_traced(self, attempt: Attempt, call: Call) -> None:
        await self._trace(attempt, partial(self._handler(attempt.task), attempt, call))

    def isolates(self, job: ClaimedJob) -> bool:
        """Return whether an attempt would run in a child process."""
        task = self._tasks.find(job.task)
        return task is not None and self._process(task, job) is not None

    def _process(self, task: Task[Any, Any], job: ClaimedJob) -> Process | None:
        return self._child_pool.process_of(task, job) if self._child_pool else None

    def add_to_group(self, job: ClaimedJob, state: QueueState) -> bool:
        """Add an item to the group that will share its call; return False if it cannot run here."""
        task = self._tasks.get(job.task)
        if (call := self._decode_or_park(task, job)) is None:
            return False
        (value,), _ = call
        try:
            key = group_key(task, job, value)
        except Exception as error:
            self._outcomes.settle(job, task.failed(error), task, None)
            return False
        state.groups.add(task, key, GatheredJob(job, value), self._loop.time())
        return True

    def start_call(self, group: ItemGroup, state: QueueState) -> SharedCall:
        """Start the call of a group's items."""
        return self._calls.start(group.task, group.entries, state, self._worker)

    def _decode_or_park(self, task: Task[Any, Any], job: ClaimedJob) -> Call | None:
        """Decode the handler's arguments; return None if the job is put back instead."""
        if not self._has_resources(task, job):
            return None
        try:
            return task.decode(job.args, job.args_version)
        except ArgumentsDoNotFit as error:
            self._park(job, Parked("bad_arguments", describe_error(error)))
            return None

    def _has_resources(self, task: Task[Any, Any], job: ClaimedJob) -> bool:
        """Return whether a handler's resources are open; if not, put the job back."""
        if task.settings.resources and (
            missing := self._resources.missing(task.settings.resources)
        ):
            self._park(job, Parked("missing_resource", _missing_error("ResourceMissing", missing)))
            return False
        return True

    def release(self, job: ClaimedJob) -> None:
        """Give back a job that was never started."""
        self._outcomes.settle(job, Released(), None, None)

    # Running attempts

    def _trace(self, attempt: Attempt, body: Body) -> Coroutine[Any, Any, None]:
        """Return the coroutine that runs the attempt, inside a trace if jobs are traced."""
        if self._tracing is None:
            return body()
        attempt.trace = self._tracing.running(attempt.job)
        return _run_in_trace(attempt.trace, body)

    async def _run_marked(
        self,
        attempt: Attempt,
        body: Callable[[Call], Coroutine[Any, Any, None]],
        suspects: Suspects,
    ) -> None:
        """Wait until a suspect may be marked as begun, mark it, and then run it."""
        attempt.has_begun = False
        async with AsyncExitStack() as stack:
            try:
                window = await stack.enter_async_context(suspects.window())
                is_marked = await suspects.mark_in_window(attempt.job, window)
            except asyncio.CancelledError as error:
                if not attempt.is_settled:
                    self._outcomes.handle_stop(attempt, error)
                return
            except MarkRefused as refusal:
                if not attempt.is_settled:
                    self._put_back(attempt, "unmarked", refusal)
                return
            if not is_marked:
                self._outcomes.handle_lost_job(attempt)
                return
            window.begin()
            try:
                call = attempt.task.decode(attempt.job.args, attempt.job.args_version)
            except ArgumentsDoNotFit as error:
                self._put_back(attempt, "bad_arguments", error)
                return
            attempt.begin()
            if attempt.job.timeout is not None:
                attempt.start_timeout(self._loop, attempt.job.timeout)
            await body(call)

    async def _on_loop(self, attempt: Attempt, call: Call) -> None:
        args, kwargs = call
        try:
            if attempt.task.takes_context:
                value = await attempt.task.fn(self._context(attempt), *args, **kwargs)
            else:
                value = await attempt.task.fn(*args, **kwargs)
        except asyncio.CancelledError as error:
            self._outcomes.handle_stop(attempt, error)
        except BaseException as error:
            self._outcomes.handle_error(
                attempt, await self._outcomes.handle_refusal(attempt, error)
            )
        else:
            self._outcomes.handle_return(attempt, value)

    async def _in_thread(self, attempt: Attempt, call: Call) -> None:
        args, kwargs = call
        if attempt.task.takes_context:
            args = (self._context(attempt), *args)
        # Like asyncio.to_thread, the thread gets a copy of this attempt's context variables.
        surroundings = copy_context()
        thread = self._threads.submit(
            surroundings.run, call_in_thread, attempt.task.fn, *args, **kwargs
        )
        returned = asyncio.wrap_future(thread, loop=self._loop)
        try:
            value = await asyncio.shield(returned)
        except asyncio.CancelledError as error:
            self._outcomes.handle_stop(attempt, error)
            if thread.cancel():
                return  # It was still waiting for a thread, and must not begin now.
            # A thread cannot be stopped: it keeps its slot until it returns.
            attempt.overdue = not thread.done()
            if attempt.overdue:
                logger.warning(
                    "%r was stopped (%s). Its thread keeps its slot until the handler returns.",
                    attempt,
                    attempt.stop_reason,
                )
            await asyncio.wait([returned])
            _ignore_error(returned)
        except BaseException as error:
            self._outcomes.handle_error(
                attempt, await self._outcomes.handle_refusal(attempt, error)
            )
        else:
            self._outcomes.handle_return(attempt, value)

    async def _in_child(self, attempt: Attempt, process: Process) -> None:
        assert self._child_pool is not None
        attempt.job.worker = self._worker
        try:
            answer = await self._child_pool.run(
                attempt, process, self._outcomes.rated_keys(attempt)
            )
        except asyncio.CancelledError as error:
            attempt.has_begun = False
            self._outcomes.handle_stop(attempt, error)
        except NotStarted:
            attempt.has_begun = False
            attempt.stop_reason = attempt.stop_reason or "shutdown"
            self._outcomes.handle_stop(attempt, asyncio.CancelledError())
        except LostJob:
            attempt.has_begun = False
            self._outcomes.handle_lost_job(attempt)
        except MarkRefused as refusal:
            attempt.has_begun = False
            self._put_back(attempt, "unmarked", refusal)
        except NoProcess as error:
            # There is no child process to run it, or not any more.
            self._put_back(attempt, "no_process", error)
        else:
            if isinstance(answer, AttemptEnded):
                self._outcomes.settle_child_outcome(attempt, answer)
            elif attempt.stop_reason is not None or answer is None:
                self._outcomes.handle_stop(attempt, asyncio.CancelledError())
            else:
                self._outcomes.conclude(attempt, self._child_pool.outcome(attempt, process, answer))

    def _context(self, attempt: Attempt) -> Context:
        return AttemptContext(
            attempt,
            self._store,
            self._resources,
            self._budgets,
            self._journal,
            self._bridge,
            self._report,
        )

    def _put_back(self, attempt: Attempt, reason: ParkedReason, error: Exception) -> None:
        """Park an attempt that this worker cannot run for now."""
        if attempt.stop_reason is not None:
            self._outcomes.handle_stop(attempt, asyncio.CancelledError())
        else:
            self._outcomes.conclude(attempt, Parked(reason, describe_error(error, kind="parked")))

    def handle_unstarted(self, attempt: Attempt) -> None:
        """End an attempt that was stopped before its first step.

        This can only happen to attempts that do not start eagerly.
        """
        self._outcomes.handle_stop(attempt, asyncio.CancelledError())

    def _park(self, job: ClaimedJob, parked: Parked) -> None:
        self._outcomes.settle(job, parked, None, None)

    def close(self) -> None:
        """Start no more threads. Threads that still run are left to themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)


async def _run_in_trace(trace: Trace, body: Body) -> None:
    with trace:
        await body()


def _settle_traced(settle: Settle, settlement: Settlement) -> None:
    attempt: Attempt | None = settlement.source
    if attempt is not None and attempt.trace is not None:
        attempt.trace.concluded(settlement.transition)
    settle(settlement)


def _missing_error(kind: str, names: list[str]) -> AttemptError:
    return AttemptError(
        kind="parked",
        type=kind,
        message=f"The worker could not open {', '.join(names)}; the job waits until it can.",
    )


def _ignore_error(thread: asyncio.Future[Any]) -> None:
    """Read the exception of an overdue thread, so that asyncio does not warn about it."""
    if not thread.cancelled():
        thread.exception()
