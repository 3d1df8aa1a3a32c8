"""What comes of attempts: how each end of a handler is told, decided and handed over."""

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
from penstock.tasks.handler.failure import http_retry_after, unawaited
from penstock.tasks.handler.waits import Suspended, suspension
from penstock.wording import span
from penstock.worker.attempt import Attempt
from penstock.worker.children.messages import Ended
from penstock.worker.run.budgets import Budgets
from penstock.worker.settle.report import fields_of

logger = logging.getLogger("penstock.worker")

_NO_POLICY = Exponential()
# Limits of a whole queue, lane or task.
OURS = ("queue:", "lane:", "task:")

# How much of an error's message is logged; all of it is with the job.
MESSAGE_SHOWN = 500
# Of a task whose jobs a worker cannot run it says so once in so long.
PARKED_AGAIN_S = 600.0
UNKNOWN = (
    "it does not know the task {task}. Import the module that has it before the worker starts, or "
    "register it with app.include; a task that was renamed can keep its old name with "
    'task(name="{task}").'
)

Settle = Callable[[Settlement], None]


class Outcomes:
    """Turns what handlers return and raise into outcomes, and these into settlements."""

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
        self._parked_told: dict[tuple[str, str], float] = {}

    def returned(self, attempt: Attempt, value: object) -> None:
        """The handler returned."""
        if attempt.completed:
            self._verify(attempt)
        elif value is None:
            job = attempt.job
            attempt.end()
            self._settle(Settlement(job.id, job.token, DONE, None, attempt))
        elif isinstance(value, Awaitable):
            self.raised(attempt, _unawaited(attempt, value))
        else:
            self.conclude(attempt, outcome_of(value))

    def raised(self, attempt: Attempt, error: BaseException) -> None:
        """The handler raised, or what it raised was heeded as this."""
        if isinstance(error, StaleAttempt) and attempt.stopped not in (None, "refused"):
            return
        if (wait := suspension(error)) is not None:
            self._put_off(attempt, wait)
            return
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            logger.error("%r raised %s; it is taken for a failure.", attempt, type(error).__name__)
        job = attempt.job
        if attempt.completed:
            logger.warning("%r raised %s after ctx.complete.", attempt, type(error).__name__)
        self.conclude(attempt, attempt.task.failed(error, attempt=job.number, worker=self._worker))

    def _put_off(self, attempt: Attempt, wait: Suspended) -> None:
        if attempt.stopped in (None, "refused"):
            self.conclude(attempt, wait.outcome)
        else:
            self.interrupted(attempt, wait)

    def interrupted(self, attempt: Attempt, error: BaseException) -> None:
        """End an attempt that was stopped, for the reason that it knows."""
        match attempt.stopped:
            case "timeout":
                self.conclude(attempt, TimedOut(self._timeout_error(attempt, error)))
            case "shutdown":
                self.conclude(attempt, Released())
            case "cancelled" | "lost":
                attempt.end()
            case "refused" | None:
                self.raised(attempt, error)

    def lost(self, attempt: Attempt) -> None:
        """The job was taken from the attempt before it began: there is nothing to write."""
        logger.info("%r was taken back before it began.", attempt)
        attempt.stopped = attempt.stopped or "lost"
        attempt.end()

    def _verify(self, attempt: Attempt) -> None:
        """After ctx.complete: if the handler's transaction did commit, this is a repeat and changes
        nothing; if it did not, the work is undone and the attempt has failed."""
        error = AttemptError(
            type="NotCommitted",
            message="ctx.complete was called, but its transaction was not committed.",
            attempt=attempt.job.number,
            worker=self._worker,
        )
        self.conclude(attempt, Failed(error))

    def conclude(self, attempt: Attempt, outcome: Outcome) -> None:
        """The attempt is over, with this outcome."""
        attempt.end()
        self.write(attempt.job, outcome, attempt.task, attempt)

    def write(
        self,
        job: ClaimedJob,
        outcome: Outcome,
        task: Task[Any, Any] | None,
        attempt: Attempt | None,
    ) -> None:
        """Decide what becomes of the job and hand that over; `attempt` is None if none began."""
        try:
            transition = self._decide(job, outcome, task)
        except Exception as error:
            # What a handler or a policy of the user's gave makes no sense: that is its failure.
            failed = Failed(describe_error(error), retryable=False)
            outcome, transition = failed, self._decide(job, failed, None)
        if transition.error is not None:
            transition.error.setdefault("attempt", job.number)
            transition.error.setdefault("worker", self._worker)
        if transition.counts_failure and attempt is not None and not attempt.is_doubtful:
            self._log_failure(attempt, transition)
        elif isinstance(outcome, Parked):
            self._log_parked(job, outcome, transition)
        result = None
        if isinstance(outcome, Done) and outcome.result is not None:
            result = encode_result(outcome.result)
        is_check = attempt is not None and attempt.completed
        self._settle(Settlement(job.id, job.token, transition, result, attempt, is_check))

    def _log_failure(self, attempt: Attempt, transition: Transition) -> None:
        """Say that an attempt failed, with its error's message in one line."""
        error = transition.error or {}
        kind, message = error.get("type", "an error"), " ".join(error.get("message", "").split())
        told = f"{kind}: {message[:MESSAGE_SHOWN]}" if message else kind
        trace = error.get("traceback", "")
        if self._log.tracebacks and trace:
            told += f"\n{trace.rstrip()}"
        elif place := raised_at(trace):
            told += f" ({place})"
        fields = fields_of(attempt.job)
        if transition.state == "failed":
            logger.error(
                "%r failed for good (%s): %s", attempt, transition.reason, told, extra=fields
            )
        else:
            logger.warning(
                "%r failed and runs again in %s: %s",
                attempt,
                span(transition.delay),
                told,
                extra=fields,
            )

    def _log_parked(self, job: ClaimedJob, parked: Parked, transition: Transition) -> None:
        """Log that this worker cannot run a job: now and then for each task, and each failure."""
        has_failed = transition.state == "failed"
        about, now = (parked.reason, job.task), time.monotonic()
        told = self._parked_told.get(about, -PARKED_AGAIN_S)
        if not has_failed:
            if now - told < PARKED_AGAIN_S:
                return
            self._parked_told[about] = now
        what = "failed for good" if has_failed else "put back to be tried again"
        if parked.reason == "unknown_task":
            why = UNKNOWN.format(task=job.task)
        else:
            why = parked.error.message if parked.error else parked.reason
        logger.log(
            logging.ERROR if has_failed else logging.WARNING,
            "This worker cannot run job %d of %s, which is %s: %s",
            job.id,
            job.task,
            what,
            why,
            extra=fields_of(job),
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
        told = describe_error(error, attempt=attempt.job.number, worker=self._worker)
        return AttemptError(
            kind="timeout",
            type="TimedOut",
            message=f"The attempt took longer than its timeout of {attempt.job.timeout:g} s.",
            traceback=told.traceback,
            attempt=attempt.job.number,
            worker=self._worker,
        )

    def decided(self, attempt: Attempt, ended: Ended) -> None:
        """A child process has decided what becomes of the job."""
        job, transition = attempt.job, ended.transition
        attempt.completed = ended.completed
        if ended.refused:
            attempt.stopped = attempt.stopped or "refused"
        attempt.end()
        if transition == DONE:
            transition = DONE  # By which a settle knows what is simply completed.
        self._settle(
            Settlement(job.id, job.token, transition, ended.result, attempt, ended.is_check)
        )

    # Servers that refuse

    async def heed(self, attempt: Attempt, error: BaseException, count: int = 1) -> BaseException:
        """The error, or what it stands for. A start in vain has cost the job's keys nothing, nor
        have those of others that shared its call and lane."""
        if (wait := http_retry_after(error)) is not None:
            error = await self._refused(attempt, error, wait)
        is_in_vain = isinstance(suspension(error), NotNow) and attempt.stopped is None
        if is_in_vain and (keys := self.rated(attempt)):
            await self._budgets.give_back_starts(keys * count)
        return error

    async def _refused(self, attempt: Attempt, error: BaseException, wait: float) -> BaseException:
        """A server refused and says for how long: the keys that the job was given are closed to
        everybody, and it must wait."""
        keys = self.rated(attempt)
        if not keys or not attempt.task.failed(error).retryable:
            return error
        waits = [await self._budgets.close(key, wait) for key in keys]
        put_off = self._budgets.put_off(keys[0], max(waits))
        put_off.__cause__ = error
        return put_off

    def rated(self, attempt: Attempt) -> list[str]:
        """The keys that the job was given and that have a rate. Not those of a whole queue or task,
        whose jobs may talk to many servers."""
        _, limits = split_lane(attempt.job.row["lane"])
        return [key for key in limits if not key.startswith(OURS) and self._budgets.has_rate(key)]


def _unawaited(attempt: Attempt, value: Awaitable[object]) -> TypeError:
    """What it means that a handler returned work instead of doing it."""
    remedy = (
        "`await` it" if attempt.task.is_async else "make the handler `async def` and `await` it"
    )
    return TypeError(unawaited(f"The handler of {attempt.task.name}", value, remedy))
