"""Counts and logs what became of a worker's attempts after they were settled."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

from penstock.job import COMPLETED
from penstock.outcome import DONE, Transition
from penstock.store import ClaimedJob, Settlement
from penstock.wording import counted, span
from penstock.worker.attempt import Attempt


class Tally:
    """Counts of settled attempts, by what became of their jobs.

    Only outcomes that the database has accepted are counted.
    """

    def __init__(self) -> None:
        self.completed = 0
        self.failed = 0
        self.cancelled = 0
        self.retried = 0
        self.snoozed = 0
        self.blocked = 0
        self.parked = 0
        self.released = 0
        self.refused = 0
        self.unwritten = 0

    def add(self, batch: Sequence[Settlement]) -> None:
        others = [
            settlement.transition for settlement in batch if settlement.transition is not DONE
        ]
        self.completed += len(batch) - len(others)
        for transition in others:
            name = name_outcome(transition)
            setattr(self, name, getattr(self, name) + 1)

    @property
    def settled(self) -> int:
        """How many attempts ran and were settled, whatever their outcome."""
        ended = self.completed + self.failed + self.cancelled
        return ended + self.retried + self.snoozed + self.blocked

    def as_dict(self) -> dict[str, int]:
        return dict(vars(self))

    def __repr__(self) -> str:
        parts = [f"{count} {word}" for word, count in vars(self).items() if count]
        return f"<Tally {', '.join(parts) or 'nothing'}>"


def name_outcome(transition: Transition) -> str:
    """Return an attempt's outcome as one word."""
    if transition.state in ("completed", "failed", "cancelled", "blocked"):
        return transition.state
    if transition.stuck:
        return "parked"
    if transition.counts_failure:
        return "retried"
    return "snoozed" if transition.delay else "released"


logger = logging.getLogger("penstock.worker")

MAX_LINES_PER_S = 100


def log_fields(job: ClaimedJob) -> dict[str, object]:
    """Return the fields that a log line about a job carries for programs."""
    return {
        "job_id": str(job.id),
        "task": job.task,
        "queue": job.queue,
        "attempt": job.number,
    }


class LineQuota:
    """How many lines may be logged in this second. All workers of a process share one."""

    def __init__(self) -> None:
        self.ends = 0.0
        self._left = 0

    def take(self, wanted: int) -> int:
        """Return how many of the wanted lines may be logged now, and count these as logged."""
        now = time.monotonic()
        if now >= self.ends:
            self.ends = now + 1.0
            self._left = MAX_LINES_PER_S
        taken = min(wanted, self._left)
        self._left -= taken
        return taken


_quota = LineQuota()


class JobLines:
    """Logs how long each completed job took.

    Beyond a hundred lines in a second, it logs only the number of the other jobs, at the end of the
    second.
    """

    def __init__(self, quota: LineQuota = _quota) -> None:
        self._quota = quota
        self._omitted = 0
        self._timer: asyncio.TimerHandle | None = None

    def settled(self, batch: Sequence[Settlement]) -> None:
        """Log outcomes that the database has accepted."""
        if not logger.isEnabledFor(logging.INFO):
            return
        completed = [
            settlement
            for settlement in batch
            if settlement.transition is DONE or settlement.transition.state == COMPLETED
        ]
        lines = self._quota.take(len(completed))
        for settlement in completed[:lines]:
            attempt: Attempt | None = settlement.source
            if attempt is not None:
                logger.info(
                    "%r completed in %s.",
                    attempt,
                    span(attempt.seconds),
                    extra={**log_fields(attempt.job), "seconds": attempt.seconds},
                )
        if lines < len(completed):
            self._omitted += len(completed) - lines
            if self._timer is None:
                rest = max(self._quota.ends - time.monotonic(), 0.0)
                self._timer = asyncio.get_running_loop().call_later(rest, self.close)

    def close(self) -> None:
        """Log how many jobs had no line of their own."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        omitted, self._omitted = self._omitted, 0
        if omitted:
            logger.info("%s completed within a second.", counted(omitted, "more job"))
