"""What attempts keep for those after them, and what it means that a write of theirs is refused."""

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
from penstock.store.steps import Awaited, Events, Saved, Steps
from penstock.store.workflows import Added, Workflows
from penstock.tasks.workflow import Parent
from penstock.worker.attempt import Attempt, StopReason
from penstock.worker.timing import DEFAULT_TIMING, Timing


def stale(attempt: Attempt, error: Exception) -> StaleAttempt | None:
    """What to raise if the job is no longer this attempt's; the attempt is stopped as refused.

    Not stopped by force: the handler must be able to roll back.
    """
    if (reason := _why(error)) is None:
        return None
    attempt.stopped = attempt.stopped or reason
    return StaleAttempt(str(attempt.job.id), attempt.job.number)


def _why(error: Exception) -> StopReason | None:
    if errors.is_state(error, errors.STALE_ATTEMPT):
        return "refused"
    return "lost" if errors.is_state(error, errors.LEASE_LOST) else None


T = TypeVar("T")
# The error of ours for one of the driver's, in words for handlers.
Explained = Callable[[Exception], PenstockError | None]

logger = logging.getLogger("penstock.worker")

# So many of the worker's connections at most keep steps: claims and settles need theirs.
CONNECTIONS = 2
LOCKED = "55P03"
HELD = (
    "Job {job}, or its workflow, is held by another transaction, so its step could not be kept. If "
    "that is this handler's own, with ctx.fence or ctx.complete: run steps before it begins."
)


def as_it_is(_: Exception) -> None:
    """Errors stay the driver's."""


class Journal:
    """Reads and writes steps. Each write is fenced and can be repeated: while the database is away
    it is tried again, until the worker's lease runs out and stops the attempt."""

    def __init__(
        self,
        pool: Pool,
        store: Store,
        explained: Explained = as_it_is,
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        self._pool = pool
        self._store = store
        self._explained = explained
        self._steps = Steps(store)
        self._events = Events(store)
        self._workflows = Workflows(store)
        self._lock_wait = timing.step_lock_wait
        self._turn = asyncio.Semaphore(CONNECTIONS)

    async def read(self, attempt: Attempt) -> list[Saved]:
        """All that the job's attempts have kept so far."""
        job = attempt.job
        return await self._ask(attempt, lambda: self._steps.read(self._pool, job.id, job.token))

    async def save(self, attempt: Attempt, saved: Saved) -> float:
        """Keep a result; how many seconds ago the step was first kept."""
        job = attempt.job
        return await self._ask(
            attempt, lambda: self._steps.save(self._pool, job.id, job.token, saved)
        )

    async def recall(self, attempt: Attempt, name: str, key: bytes) -> str | None:
        """The result that another job had for the same key, which becomes this step's."""
        job = attempt.job
        return await self._ask(
            attempt, lambda: self._steps.recall(self._pool, job.id, job.token, name, key)
        )

    async def share(self, attempt: Attempt, saved: Saved, key: bytes, ttl: float) -> None:
        """Keep a result, for this job and for others."""
        job = attempt.job
        await self._ask(
            attempt, lambda: self._steps.share(self._pool, job.id, job.token, saved, key, ttl)
        )

    async def sleep(
        self, attempt: Attempt, name: str, until: datetime | None, seconds: float
    ) -> float:
        """How many seconds are left of a sleep, which begins with the first call."""
        job = attempt.job
        return await self._ask(
            attempt,
            lambda: self._steps.sleep(self._pool, job.id, job.token, name, until, seconds),
        )

    async def wait_for_event(
        self, attempt: Attempt, step: str, name: str, after: int, timeout: float | None
    ) -> Awaited:
        """What there is for an attempt that waits for the first event after another."""
        job = attempt.job
        return await self._ask(
            attempt,
            lambda: self._events.wait(self._pool, job.id, job.token, step, name, after, timeout),
        )

    async def parents(self, attempt: Attempt) -> list[Parent]:
        """What the jobs came to that this one has waited for."""
        job = attempt.job
        return await self._ask(
            attempt, lambda: self._workflows.parents(self._pool, job.id, job.token)
        )

    async def extend(self, attempt: Attempt, call: int, added: str) -> list[Added]:
        """Add jobs, as `forms` has them, to the workflow of the attempt's own."""
        job = attempt.job
        return await self._ask(
            attempt,
            lambda: self._workflows.extend_own(self._pool, job.id, job.token, call, added),
        )

    async def completed(self, attempts: Sequence[Attempt]) -> set[int]:
        """The jobs that ctx.complete has ended; of the others the transaction was rolled back."""
        checks = [Settlement(attempt.job.id, attempt.job.token, DONE, None) for attempt in attempts]
        return await self._ask(attempts[0], lambda: self._store.find_completed(self._pool, checks))

    async def _ask(self, attempt: Attempt, question: Callable[[], Awaitable[T]]) -> T:
        backoff, began = MIN_BACKOFF_S, monotonic()
        cancels = errors.cancels()
        while True:
            try:
                async with self._turn:
                    return await question()
            except Exception as error:
                errors.raise_if_cancelled(error, cancels)
                if known := stale(attempt, error) or queue_error(error):
                    raise known from error
                is_locked = errors.is_state(error, LOCKED)
                if is_locked and monotonic() - began >= self._lock_wait:
                    raise RuntimeError(HELD.format(job=attempt.job.id)) from error
                is_passing = errors.is_lost(error) or errors.is_transient(error)
                if not is_passing or attempt.stopped is not None:
                    if (told := self._explained(error)) is not None:
                        raise told from told.__cause__ or error
                    raise
                if not is_locked and not errors.is_unavailable(error):
                    logger.warning("A step of %r could not be kept yet: %r", attempt, error)
            await asyncio.sleep(backoff)
            backoff = min(backoff * 2, MAX_BACKOFF_S)
