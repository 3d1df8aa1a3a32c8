"""Reads and writes what attempts save for later ones, and recognises writes that are refused."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from time import monotonic
from typing import TypeVar

from penstock.errors import PenstockError, StaleAttempt
from penstock.lifecycle import MAX_BACKOFF_S, MIN_BACKOFF_S
from penstock.outcome import DONE
from penstock.store import Pool, Settlement, Store, errors
from penstock.store.errors import queue_error
from penstock.store.steps import AwaitedEvent, EventStatements, Saved, Steps
from penstock.store.workflows import Added, Workflows
from penstock.tasks.workflow import Parent
from penstock.worker.attempt import Attempt, StopReason
from penstock.worker.timing import DEFAULT_TIMING, Timing


def stale_error(attempt: Attempt, error: Exception) -> StaleAttempt | None:
    """Return StaleAttempt if a database error means that the attempt has lost its job, else None.

    The attempt is marked as refused. Its handler is not cancelled, because it must be able to roll
    back its transaction.
    """
    if (reason := _stop_reason_of(error)) is None:
        return None
    attempt.stop_reason = attempt.stop_reason or reason
    return StaleAttempt(str(attempt.job.id), attempt.job.number)


def _stop_reason_of(error: Exception) -> StopReason | None:
    if errors.is_state(error, errors.STALE_ATTEMPT):
        return "refused"
    return "lost" if errors.is_state(error, errors.LEASE_LOST) else None


T = TypeVar("T")
# Returns our error for a driver's error, in words for handlers.
ExplainError = Callable[[Exception], PenstockError | None]

logger = logging.getLogger("penstock.worker")

# At most this many of the worker's connections save steps: claims and settles need the others.
MAX_CONNECTIONS = 2
LOCKED = "55P03"
ROW_LOCKED = (
    "Another transaction has locked job {job} or its workflow, so the step could not be saved. "
    "If that transaction is this handler's own, with ctx.fence or ctx.complete, run the steps "
    "before it begins."
)


def keep_error(_: Exception) -> None:
    """Return None, so that the driver's error is raised as it is."""


class Journal:
    """Reads and writes steps for handlers.

    Each write is fenced and can be repeated. While the database is away, writes are retried until
    the worker's lease runs out, which stops the attempt.
    """

    def __init__(
        self,
        pool: Pool,
        store: Store,
        explain: ExplainError = keep_error,
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        self._pool = pool
        self._store = store
        self._explain = explain
        self._steps = Steps(store)
        self._events = EventStatements(store)
        self._workflows = Workflows(store)
        self._lock_wait = timing.step_lock_wait
        self._connection_slots = asyncio.Semaphore(MAX_CONNECTIONS)

    async def read(self, attempt: Attempt) -> list[Saved]:
        """Return all steps that the job's attempts have saved so far."""
        job = attempt.job
        return await self._retry(attempt, lambda: self._steps.read(self._pool, job.id, job.token))

    async def save(self, attempt: Attempt, saved: Saved) -> float:
        """Save a result; return how many seconds ago the step was first saved."""
        job = attempt.job
        return await self._retry(
            attempt, lambda: self._steps.save(self._pool, job.id, job.token, saved)
        )

    async def recall(self, attempt: Attempt, name: str, key: bytes) -> str | None:
        """Return the result that another job saved for the same key, or None.

        The result also becomes the result of this step.
        """
        job = attempt.job
        return await self._retry(
            attempt, lambda: self._steps.recall(self._pool, job.id, job.token, name, key)
        )

    async def share(self, attempt: Attempt, saved: Saved, key: bytes, ttl: float) -> None:
        """Save a result for this job and for others."""
        job = attempt.job
        await self._retry(
            attempt, lambda: self._steps.share(self._pool, job.id, job.token, saved, key, ttl)
        )

    async def sleep(
        self, attempt: Attempt, name: str, until: datetime | None, seconds: float
    ) -> float:
        """Return how many seconds of a sleep are left. The sleep begins with the first call."""
        job = attempt.job
        return await self._retry(
            attempt,
            lambda: self._steps.sleep(self._pool, job.id, job.token, name, until, seconds),
        )

    async def wait_for_event(
        self, attempt: Attempt, step: str, name: str, after: int, timeout: float | None
    ) -> AwaitedEvent:
        """Return the first event after `after`, or the answer that the attempt must wait."""
        job = attempt.job
        return await self._retry(
            attempt,
            lambda: self._events.wait(self._pool, job.id, job.token, step, name, after, timeout),
        )

    async def parents(self, attempt: Attempt) -> list[Parent]:
        """Return the results of the jobs that this attempt's job has waited for."""
        job = attempt.job
        return await self._retry(
            attempt, lambda: self._workflows.parents(self._pool, job.id, job.token)
        )

    async def extend(self, attempt: Attempt, call: int, added: str) -> list[Added]:
        """Add jobs, encoded by `forms`, to the attempt's workflow."""
        job = attempt.job
        return await self._retry(
            attempt,
            lambda: self._workflows.extend_own(self._pool, job.id, job.token, call, added),
        )

    async def completed(self, attempts: Sequence[Attempt]) -> set[int]:
        """Return the ids of the jobs whose ctx.complete was committed and not rolled back."""
        checks = [Settlement(attempt.job.id, attempt.job.token, DONE, None) for attempt in attempts]
        return await self._retry(
            attempts[0], lambda: self._store.find_completed(self._pool, checks)
        )

    async def _retry(self, attempt: Attempt, question: Callable[[], Awaitable[T]]) -> T:
        backoff, began = MIN_BACKOFF_S, monotonic()
        cancels = errors.cancels()
        while True:
            try:
                async with self._connection_slots:
                    return await question()
            except Exception as error:
                errors.raise_if_cancelled(error, cancels)
                if final_error := stale_error(attempt, error) or queue_error(error):
                    raise final_error from error
                is_locked = errors.is_state(error, LOCKED)
                if is_locked and monotonic() - began >= self._lock_wait:
                    raise RuntimeError(ROW_LOCKED.format(job=attempt.job.id)) from error
                is_passing = errors.is_lost(error) or errors.is_transient(error)
                if not is_passing or attempt.stop_reason is not None:
                    if (explained := self._explain(error)) is not None:
                        raise explained from explained.__cause__ or error
                    raise
                if not is_locked and not errors.is_unavailable(error):
                    logger.warning(
                        "A step of %r could not be saved yet, and is tried again: %r",
                        attempt,
                        error,
                    )
            await asyncio.sleep(backoff)
            backoff = min(backoff * 2, MAX_BACKOFF_S)
