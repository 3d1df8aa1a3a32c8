"""Runs attempts: finds the task, decodes the arguments, calls the handler, says what came of it.

Async handlers run on the loop. On Python 3.12 and later they start eagerly: one that never waits
is done before it is ever scheduled. Sync handlers run in threads.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sys
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from penstock.backoff import Exponential
from penstock.errors import ArgumentsDoNotFit, StaleAttempt
from penstock.job import AttemptError, split_lane
from penstock.outcome import (
    DONE,
    Done,
    Failed,
    Outcome,
    Parked,
    Released,
    TimedOut,
    Transition,
    decide,
    outcome_of,
)
from penstock.store import Attempt, Settlement, Store
from penstock.tasks import Context, NotNow, Registry, Task, describe_error, encode_result
from penstock.tasks.isolate import Process
from penstock.tasks.reader import Call
from penstock.tasks.retry_after import http_retry_after
from penstock.tasks.suspended import Suspended, suspension
from penstock.worker.bridge import Bridge
from penstock.worker.budgets import Budgets
from penstock.worker.calls import Calls, Endings
from penstock.worker.context import AttemptContext, Report
from penstock.worker.gathering import Entry, Group, group_key
from penstock.worker.inside.messages import Ended
from penstock.worker.isolation import Isolation, NoProcess, NotBegun
from penstock.worker.item_run import Call as ItemsCall
from penstock.worker.journal import Journal
from penstock.worker.queue_state import QueueState
from penstock.worker.resources import Offers
from penstock.worker.run import Run

logger = logging.getLogger("penstock.worker")

_NO_POLICY = Exponential()
# Limits of a whole queue, lane or task.
OURS = ("queue:", "lane:", "task:")

Settle = Callable[[Settlement], None]


class Executor:
    """Starts attempts and hands their outcomes to the completer."""

    def __init__(
        self,
        tasks: Registry,
        store: Store,
        opened: Offers,
        budgets: Budgets,
        journal: Journal,
        report: Report,
        settle: Settle,
        *,
        worker: str,
        threads: int,
        park_limit: float,
        isolation: Isolation | None = None,
    ) -> None:
        self._tasks = tasks
        self._store = store
        self._opened = opened
        self._budgets = budgets
        self._journal = journal
        self._bridge = Bridge()
        self._report = report
        self._settle = settle
        self._worker = worker
        self._park_limit = park_limit
        self._isolation = isolation
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="penstock")
        self._rng = random.Random()
        self._calls = Calls(
            Endings(self._returned, self._raised, self._interrupted, self._heed),
            self._context,
            self._threads,
            opened,
            budgets,
            journal,
            self._bridge,
        )

    def start(self, attempt: Attempt, state: QueueState) -> Run | None:
        """Start an attempt; None if it cannot be run here and is put back."""
        task = self._tasks.find(attempt.task)
        if task is None:
            self._park(attempt, Parked("unknown_task"))
            return None
        if (process := self._process(task, attempt)) is not None:
            run = Run(attempt, task, state)
            # Its child keeps the time, and begins when the handler does.
            run.future = self._loop.create_task(self._in_child(run, process))
            return run
        if (call := self._decoded(task, attempt)) is None:
            return None
        if task.settings.batch is not None:
            return self._calls.start(task, [Entry(attempt, *call[0])], state, self._worker).runs[0]
        attempt.worker = self._worker
        run = Run(attempt, task, state)
        body = self._on_loop(run, call) if task.is_async else self._in_thread(run, call)
        if sys.version_info >= (3, 12):
            run.future = asyncio.Task(body, loop=self._loop, eager_start=True)
            if run.future.done():
                return run
        else:
            run.future = self._loop.create_task(body)
        if attempt.timeout is not None:
            run.timer = self._loop.call_later(attempt.timeout, run.stop, "timeout")
        return run

    def isolates(self, attempt: Attempt) -> bool:
        """Whether an attempt would run in a child process."""
        task = self._tasks.find(attempt.task)
        return task is not None and self._process(task, attempt) is not None

    def _process(self, task: Task[Any, Any], attempt: Attempt) -> Process | None:
        return self._isolation.process_of(task, attempt) if self._isolation else None

    def gather(self, attempt: Attempt, state: QueueState) -> bool:
        """Put an item where it waits for its call; False if it cannot be run here."""
        task = self._tasks.get(attempt.task)
        if (call := self._decoded(task, attempt)) is None:
            return False
        (value,), _ = call
        try:
            key = group_key(task, attempt, value)
        except Exception as error:
            self._write(attempt, task.failed(error), task, None)
            return False
        state.gathering.add(task, key, Entry(attempt, value), self._loop.time())
        return True

    def start_call(self, group: Group, state: QueueState) -> ItemsCall:
        """Start the call of items that were gathered."""
        return self._calls.start(group.task, group.entries, state, self._worker)

    def _decoded(self, task: Task[Any, Any], attempt: Attempt) -> Call | None:
        """What to call the handler with; None if it cannot be run here and is put back."""
        if task.settings.resources and (missing := self._opened.missing(task.settings.resources)):
            self._park(attempt, Parked("missing_resource", _note("ResourceMissing", missing)))
            return None
        try:
            return task.decode(attempt.args, attempt.args_version)
        except ArgumentsDoNotFit as error:
            self._park(attempt, Parked("bad_arguments", describe_error(error)))
            return None

    def release(self, attempt: Attempt) -> None:
        """Give back an attempt that was never started."""
        self._write(attempt, Released(), None, None)

    # What is run

    async def _on_loop(self, run: Run, call: Call) -> None:
        args, kwargs = call
        try:
            if run.task.takes_context:
                value = await run.task.fn(self._context(run), *args, **kwargs)
            else:
                value = await run.task.fn(*args, **kwargs)
        except asyncio.CancelledError as error:
            self._interrupted(run, error)
        except BaseException as error:
            self._raised(run, await self._heed(run, error))
        else:
            self._returned(run, value)

    async def _in_thread(self, run: Run, call: Call) -> None:
        args, kwargs = call
        if run.task.takes_context:
            args = (self._context(run), *args)
        thread = self._threads.submit(_call, run.task.fn, args, kwargs)
        returned = asyncio.wrap_future(thread, loop=self._loop)
        try:
            value = await asyncio.shield(returned)
        except asyncio.CancelledError as error:
            self._interrupted(run, error)
            if thread.cancel():
                return  # It was still waiting for a thread, and must not begin any more.
            # A thread cannot be stopped: it keeps its slot until it returns.
            run.overdue = not thread.done()
            if run.overdue:
                logger.warning("%r was stopped (%s); its thread keeps its slot.", run, run.stopped)
            await asyncio.wait([returned])
            _forget(returned)
        except BaseException as error:
            self._raised(run, await self._heed(run, error))
        else:
            self._returned(run, value)

    async def _in_child(self, run: Run, process: Process) -> None:
        assert self._isolation is not None
        run.attempt.worker = self._worker
        try:
            answer = await self._isolation.run(run, process, self._rated(run))
        except asyncio.CancelledError as error:
            self._interrupted(run, error)
        except NotBegun:
            run.stopped = run.stopped or "shutdown"
            self._interrupted(run, asyncio.CancelledError())
        except NoProcess as error:
            self._left_alone(run, error)
        else:
            if isinstance(answer, Ended):
                self._ended_inside(run, answer)
            elif run.stopped is not None or answer is None:
                self._interrupted(run, asyncio.CancelledError())
            else:
                self._conclude(run, self._isolation.outcome(run, process, answer))

    def _context(self, run: Run) -> Context:
        return AttemptContext(
            run,
            self._store,
            self._opened,
            self._budgets,
            self._journal,
            self._bridge,
            self._report,
        )

    async def _heed(self, run: Run, error: BaseException, count: int = 1) -> BaseException:
        """The error, or what it stands for. A start in vain has cost the job's keys nothing, nor
        have those of others that shared its call and lane."""
        if (wait := http_retry_after(error)) is not None:
            error = await self._refused(run, error, wait)
        is_in_vain = isinstance(suspension(error), NotNow) and run.stopped is None
        if is_in_vain and (keys := self._rated(run)):
            await self._budgets.give_back_starts(keys * count)
        return error

    async def _refused(self, run: Run, error: BaseException, wait: float) -> BaseException:
        """A server refused and says for how long: the keys that the job was given are closed to
        everybody, and it must wait."""
        keys = self._rated(run)
        if not keys or not run.task.failed(error).retryable:
            return error
        waits = [await self._budgets.close(key, wait) for key in keys]
        put_off = self._budgets.put_off(keys[0], max(waits))
        put_off.__cause__ = error
        return put_off

    def _rated(self, run: Run) -> list[str]:
        """The keys that the job was given and that have a rate. Not those of a whole queue or task,
        whose jobs may talk to many servers."""
        _, limits = split_lane(run.attempt.row["lane"])
        return [key for key in limits if not key.startswith(OURS) and self._budgets.has_rate(key)]

    # What came of it

    def _returned(self, run: Run, value: object) -> None:
        if run.completed:
            self._verify(run)
        elif value is None:
            attempt = run.attempt
            run.end()
            self._settle(Settlement(attempt.id, attempt.token, DONE, None, run))
        elif isinstance(value, Awaitable):
            self._raised(run, _unawaited(run, value))
        else:
            self._conclude(run, outcome_of(value))

    def _raised(self, run: Run, error: BaseException) -> None:
        if isinstance(error, StaleAttempt) and run.stopped not in (None, "refused"):
            return
        if (wait := suspension(error)) is not None:
            self._put_off(run, wait)
            return
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            logger.error("%r raised %s; it is taken for a failure.", run, type(error).__name__)
        attempt = run.attempt
        if run.completed:
            logger.warning("%r raised %s after ctx.complete.", run, type(error).__name__)
        self._conclude(run, run.task.failed(error, attempt=attempt.number, worker=self._worker))

    def _put_off(self, run: Run, wait: Suspended) -> None:
        if run.stopped in (None, "refused"):
            self._conclude(run, wait.outcome)
        else:
            self._interrupted(run, wait)

    def _interrupted(self, run: Run, error: BaseException) -> None:
        match run.stopped:
            case "timeout":
                self._conclude(run, TimedOut(self._timeout_error(run, error)))
            case "shutdown":
                self._conclude(run, Released())
            case "cancelled" | "lost":
                run.end()
            case "refused" | None:
                self._raised(run, error)

    def _ended_inside(self, run: Run, ended: Ended) -> None:
        """The child has decided what becomes of the job."""
        attempt, transition = run.attempt, ended.transition
        run.completed = ended.completed
        if ended.refused:
            run.stopped = run.stopped or "refused"
        run.end()
        if transition == DONE:
            transition = DONE  # By which a settle knows what is simply completed.
        self._settle(
            Settlement(attempt.id, attempt.token, transition, ended.result, run, ended.is_check)
        )

    def _left_alone(self, run: Run, error: NoProcess) -> None:
        """There is no child process to run it, or there is none any more."""
        if run.stopped is not None:
            self._interrupted(run, asyncio.CancelledError())
        else:
            self._conclude(run, Parked("no_process", describe_error(error, kind="parked")))

    def never_ran(self, run: Run) -> None:
        """The attempt was stopped before its first step (not started eagerly)."""
        self._interrupted(run, asyncio.CancelledError())

    def _verify(self, run: Run) -> None:
        """After ctx.complete: if the handler's transaction did commit, this is a repeat and changes
        nothing; if it did not, the work is undone and the attempt has failed."""
        error = AttemptError(
            type="NotCommitted",
            message="ctx.complete was called, but its transaction was not committed.",
            attempt=run.attempt.number,
            worker=self._worker,
        )
        self._conclude(run, Failed(error))

    def _park(self, attempt: Attempt, parked: Parked) -> None:
        self._write(attempt, parked, None, None)

    def _conclude(self, run: Run, outcome: Outcome) -> None:
        run.end()
        self._write(run.attempt, outcome, run.task, run)

    def _write(
        self, attempt: Attempt, outcome: Outcome, task: Task[Any, Any] | None, run: Run | None
    ) -> None:
        try:
            transition = self._decide(attempt, outcome, task)
        except Exception as error:
            # What a handler or a policy of the user's gave makes no sense: that is its failure.
            failed = Failed(describe_error(error), retryable=False)
            outcome, transition = failed, self._decide(attempt, failed, None)
        if transition.error is not None:
            transition.error.setdefault("attempt", attempt.number)
            transition.error.setdefault("worker", self._worker)
        if transition.counts_failure and run is not None and not run.is_doubtful:
            _log_failure(run, transition)
        result = None
        if isinstance(outcome, Done) and outcome.result is not None:
            result = encode_result(outcome.result)
        is_check = run is not None and run.completed
        self._settle(Settlement(attempt.id, attempt.token, transition, result, run, is_check))

    def _decide(
        self, attempt: Attempt, outcome: Outcome, task: Task[Any, Any] | None
    ) -> Transition:
        return decide(
            attempt,
            outcome,
            policy=task.policy(attempt.retry) if task else _NO_POLICY,
            now=datetime.now(UTC),
            rng=self._rng,
            park_limit=self._park_limit,
        )

    def _timeout_error(self, run: Run, error: BaseException) -> AttemptError:
        told = describe_error(error, attempt=run.attempt.number, worker=self._worker)
        return AttemptError(
            kind="timeout",
            type="TimedOut",
            message=f"The attempt took longer than its timeout of {run.attempt.timeout:g} s.",
            traceback=told.traceback,
            attempt=run.attempt.number,
            worker=self._worker,
        )

    def close(self) -> None:
        """Take no more threads; those that still run are left to themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _log_failure(run: Run, transition: Transition) -> None:
    """Say that an attempt failed, by its error's type: a message may hold what no log should."""
    attempt = run.attempt
    fields = {
        "job_id": str(attempt.id),
        "task": attempt.task,
        "queue": attempt.queue,
        "attempt": attempt.number,
    }
    kind = (transition.error or {}).get("type", "an error")
    if transition.state == "failed":
        logger.error("%r failed with %s, for good: %s.", run, kind, transition.reason, extra=fields)
    else:
        logger.warning(
            "%r failed with %s; again in %.1f s.", run, kind, transition.delay, extra=fields
        )


def _note(kind: str, names: list[str]) -> AttemptError:
    return AttemptError(
        kind="parked",
        type=kind,
        message=f"The worker could not open {', '.join(names)}; the job waits until it can.",
    )


def _call(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        return fn(*args, **kwargs)
    except StopIteration as error:
        # No future can carry it: on Python 3.11 the one who waits would wait for ever.
        raise RuntimeError("The handler raised StopIteration.") from error


def _unawaited(run: Run, value: Awaitable[object]) -> TypeError:
    """What it means that a handler returned work instead of doing it."""
    if isinstance(value, Coroutine):
        value.close()  # Or Python warns of it, wherever the garbage collector finds it.
    remedy = "`await` it" if run.task.is_async else "make the handler `async def` and `await` it"
    return TypeError(
        f"The handler of {run.task.name} returned a {type(value).__name__} that nobody has "
        f"awaited, so its work is not done: {remedy}."
    )


def _forget(thread: asyncio.Future[Any]) -> None:
    """An overdue thread's exception has nobody to go to; looking at it keeps asyncio quiet."""
    if not thread.cancelled():
        thread.exception()
