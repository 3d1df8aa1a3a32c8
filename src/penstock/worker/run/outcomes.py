"""Decides what the end of a handler means for its job, and passes the decision on to be settled."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from penstock.backoff import Exponential
from penstock.config import JobLog
from penstock.errors import StaleAttempt
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
from penstock.store import ClaimedJob, Settlement
from penstock.tasks import NotNow, Task, describe_error, encode_result, raised_at
from penstock.tasks.handler.failure import describe_unawaited, http_retry_after
from penstock.tasks.handler.waits import Suspended, suspension
from penstock.wording import span
from penstock.worker.attempt import Attempt
from penstock.worker.children.messages import AttemptEnded
from penstock.worker.run.budgets import Budgets
from penstock.worker.settle.report import log_fields

logger = logging.getLogger("penstock.worker")

_NO_POLICY = Exponential()
# Keys of a whole queue, lane or task.
SHARED_KEYS = ("queue:", "lane:", "task:")

# How much of an error's message is logged; all of it is stored with the job.
MAX_MESSAGE_CHARS = 500
# How often a worker logs that it cannot run the jobs of a task.
PARKED_LOG_INTERVAL_S = 600.0
UNKNOWN_TASK = (
    "it does not know the task {task}. Import the module that has it before the worker starts, or "
    "register it with app.include; a task that was renamed can keep its old name with "
    'task(name="{task}").'
)

Settle = Callable[[Settlement], None]


class Outcomes:
    """Turns what handlers return and raise into outcomes, and outcomes into settlements."""

    def __init__(
        self,
        budgets: Budgets,
        settle: Settle,
        *,
        worker: str,
        park_limit: float,
        park_shortest: float,
        log: JobLog,
    ) -> None:
        self._budgets = budgets
        self._settle = settle
        self._worker = worker
        self._park_limit = park_limit
        self._park_shortest = park_shortest
        self._log = log
        self._rng = random.Random()
        self._parked_logged_at: dict[tuple[str, str], float] = {}

    def handle_return(self, attempt: Attempt, value: object) -> None:
        """Handle what a handler returned."""
        if attempt.completed:
            self._check_completion(attempt)
        elif value is None:
            job = attempt.job
            attempt.end()
            self._settle(Settlement(job.id, job.token, DONE, None, attempt))
        elif isinstance(value, Awaitable):
            self.handle_error(attempt, _unawaited_error(attempt, value))
        else:
            self.conclude(attempt, outcome_of(value))

    def handle_error(self, attempt: Attempt, error: BaseException) -> None:
        """Handle the error that a handler raised, or the error that replaces it."""
        if isinstance(error, StaleAttempt) and attempt.stop_reason not in (None, "refused"):
            return
        if (wait := suspension(error)) is not None:
            self._suspend(attempt, wait)
            return
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            logger.error("%r raised %s, which counts as a failure.", attempt, type(error).__name__)
        job = attempt.job
        if attempt.completed:
            logger.warning("%r raised %s after ctx.complete.", attempt, type(error).__name__)
        self.conclude(attempt, attempt.task.failed(error, attempt=job.number, worker=self._worker))

    def _suspend(self, attempt: Attempt, wait: Suspended) -> None:
        if attempt.stop_reason in (None, "refused"):
            self.conclude(attempt, wait.outcome)
        else:
            self.handle_stop(attempt, wait)

    def handle_stop(self, attempt: Attempt, error: BaseException) -> None:
        """End an attempt that was stopped, according to its stop reason."""
        match attempt.stop_reason:
            case "timeout":
                self.conclude(attempt, TimedOut(self._timeout_error(attempt, error)))
            case "shutdown":
                self.conclude(attempt, Released())
            case "cancelled" | "lost":
                attempt.end()
            case "refused" | None:
                self.handle_error(attempt, error)

    def handle_lost_job(self, attempt: Attempt) -> None:
        """End an attempt whose job was taken back before it began: there is nothing to write."""
        logger.info("%r was taken back before it began.", attempt)
        attempt.stop_reason = attempt.stop_reason or "lost"
        attempt.end()

    def _check_completion(self, attempt: Attempt) -> None:
        """End an attempt after ctx.complete.

        The attempt is settled as failed. If the handler's transaction did commit, the job is
        completed already and this settle changes nothing. If the transaction did not commit, the
        work is undone and the attempt has indeed failed.
        """
        error = AttemptError(
            type="NotCommitted",
            message="ctx.complete was called, but its transaction was not committed.",
            attempt=attempt.job.number,
            worker=self._worker,
        )
        self.conclude(attempt, Failed(error))

    def conclude(self, attempt: Attempt, outcome: Outcome) -> None:
        """End the attempt with this outcome."""
        attempt.end()
        self.settle(attempt.job, outcome, attempt.task, attempt)

    def settle(
        self,
        job: ClaimedJob,
        outcome: Outcome,
        task: Task[Any, Any] | None,
        attempt: Attempt | None,
    ) -> None:
        """Decide the job's next state and pass it on to be settled.

        `attempt` is None if no attempt began.
        """
        try:
            transition = self._decide(job, outcome, task)
        except Exception as error:
            # The handler's or policy's value makes no sense: that is its own failure.
            failed = Failed(describe_error(error), retryable=False)
            outcome, transition = failed, self._decide(job, failed, None)
        if transition.error is not None:
            transition.error.setdefault("attempt", job.number)
            transition.error.setdefault("worker", self._worker)
        if transition.counts_failure and attempt is not None and not attempt.is_uncertain:
            self._log_failure(attempt, transition)
        elif isinstance(outcome, Parked):
            self._log_parked(job, outcome, transition)
        result = None
        if isinstance(outcome, Done) and outcome.result is not None:
            result = encode_result(outcome.result)
        is_check = attempt is not None and attempt.completed
        self._settle(Settlement(job.id, job.token, transition, result, attempt, is_check))

    def _log_failure(self, attempt: Attempt, transition: Transition) -> None:
        """Log a failed attempt, with its error's message in one line."""
        error = transition.error or {}
        kind, message = error.get("type", "an error"), " ".join(error.get("message", "").split())
        text = f"{kind}: {message[:MAX_MESSAGE_CHARS]}" if message else kind
        trace = error.get("traceback", "")
        if self._log.tracebacks and trace:
            text += f"\n{trace.rstrip()}"
        elif place := raised_at(trace):
            text += f" ({place})"
        fields = log_fields(attempt.job)
        if transition.state == "failed":
            logger.error(
                "%r failed for good (%s): %s", attempt, transition.reason, text, extra=fields
            )
        else:
            logger.warning(
                "%r failed and runs again in %s: %s",
                attempt,
                span(transition.delay),
                text,
                extra=fields,
            )

    def _log_parked(self, job: ClaimedJob, parked: Parked, transition: Transition) -> None:
        """Log that this worker cannot run a job.

        A job that thereby fails for good is always logged. Other jobs are logged only now and then
        for each task.
        """
        has_failed = transition.state == "failed"
        about, now = (parked.reason, job.task), time.monotonic()
        logged_at = self._parked_logged_at.get(about, -PARKED_LOG_INTERVAL_S)
        if not has_failed:
            if now - logged_at < PARKED_LOG_INTERVAL_S:
                return
            self._parked_logged_at[about] = now
        result = "failed for good" if has_failed else "put back to be tried again"
        if parked.reason == "unknown_task":
            why = UNKNOWN_TASK.format(task=job.task)
        else:
            why = parked.error.message if parked.error else parked.reason
        logger.log(
            logging.ERROR if has_failed else logging.WARNING,
            "This worker cannot run job %d of %s, which is %s: %s",
            job.id,
            job.task,
            result,
            why,
            extra=log_fields(job),
        )

    def _decide(self, job: ClaimedJob, outcome: Outcome, task: Task[Any, Any] | None) -> Transition:
        return decide(
            job,
            outcome,
            policy=task.policy(job.retry) if task else _NO_POLICY,
            now=datetime.now(UTC),
            rng=self._rng,
            park_limit=self._park_limit,
            park_shortest=self._park_shortest,
        )

    def _timeout_error(self, attempt: Attempt, error: BaseException) -> AttemptError:
        described = describe_error(error, attempt=attempt.job.number, worker=self._worker)
        return AttemptError(
            kind="timeout",
            type="TimedOut",
            message=f"The attempt took longer than its timeout of {attempt.job.timeout:g} s.",
            traceback=described.traceback,
            attempt=attempt.job.number,
            worker=self._worker,
        )

    def settle_child_outcome(self, attempt: Attempt, ended: AttemptEnded) -> None:
        """Settle an attempt whose outcome a child process has decided."""
        job, transition = attempt.job, ended.transition
        attempt.completed = ended.completed
        if ended.refused:
            attempt.stop_reason = attempt.stop_reason or "refused"
        attempt.end()
        if transition == DONE:
            transition = DONE  # A settle compares by identity to find plain completions.
        self._settle(
            Settlement(job.id, job.token, transition, ended.result, attempt, ended.is_check)
        )

    # Refusals by servers (such as HTTP 429)

    async def handle_refusal(
        self, attempt: Attempt, error: BaseException, count: int = 1
    ) -> BaseException:
        """Return the error, or the error that replaces it if a server refused the call.

        If the job must wait, give back the starts that its keys were charged, also for the other
        items of its call.
        """
        if (wait := http_retry_after(error)) is not None:
            error = await self._close_keys(attempt, error, wait)
        is_in_vain = isinstance(suspension(error), NotNow) and attempt.stop_reason is None
        if is_in_vain and (keys := self.rated_keys(attempt)):
            await self._budgets.give_back_starts(keys * count)
        return error

    async def _close_keys(
        self, attempt: Attempt, error: BaseException, wait: float
    ) -> BaseException:
        """Close the job's keys for all workers, because a server refused and asked for a wait.

        Return the error that ends the attempt.
        """
        keys = self.rated_keys(attempt)
        if not keys or not attempt.task.failed(error).retryable:
            return error
        waits = [await self._budgets.close(key, wait) for key in keys]
        not_now = self._budgets.not_now(keys[0], max(waits))
        not_now.__cause__ = error
        return not_now

    def rated_keys(self, attempt: Attempt) -> list[str]:
        """Return the job's own keys that have a rate limit.

        Keys of a whole queue or task are left out, because their jobs may call many servers.
        """
        _, limits = split_lane(attempt.job.row["lane"])
        return [
            key for key in limits if not key.startswith(SHARED_KEYS) and self._budgets.has_rate(key)
        ]


def _unawaited_error(attempt: Attempt, value: Awaitable[object]) -> TypeError:
    """Return the error for a handler that returned an awaitable instead of awaiting it."""
    remedy = (
        "`await` it" if attempt.task.is_async else "make the handler `async def` and `await` it"
    )
    return TypeError(describe_unawaited(f"The handler of {attempt.task.name}", value, remedy))
