"""After a settle: what a worker's attempts came to, counted and logged."""

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
    """Settled attempts by what became of their jobs. True counts: only what the database took."""

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
        others = [one.transition for one in batch if one.transition is not DONE]
        self.completed += len(batch) - len(others)
        for transition in others:
            name = word_of(transition)
            setattr(self, name, getattr(self, name) + 1)

    @property
    def settled(self) -> int:
        """Attempts that ran and were settled, whatever they came to."""
        ended = self.completed + self.failed + self.cancelled
        return ended + self.retried + self.snoozed + self.blocked

    def as_dict(self) -> dict[str, int]:
        return dict(vars(self))

    def __repr__(self) -> str:
        parts = [f"{count} {word}" for word, count in vars(self).items() if count]
        return f"<Tally {', '.join(parts) or 'nothing'}>"


def word_of(transition: Transition) -> str:
    """What an attempt came to, in a word."""
    if transition.state in ("completed", "failed", "cancelled", "blocked"):
        return transition.state
    if transition.stuck:
        return "parked"
    if transition.counts_failure:
        return "retried"
    return "snoozed" if transition.delay else "released"


logger = logging.getLogger("penstock.worker")

LINES_PER_SECOND = 100


def fields_of(job: ClaimedJob) -> dict[str, object]:
    """What a line about a job carries, for programs."""
    return {
        "job_id": str(job.id),
        "task": job.task,
        "queue": job.queue,
        "attempt": job.number,
    }


class Ration:
    """How many lines are left of a second's worth. All workers of a process share one."""

    def __init__(self) -> None:
        self.ends = 0.0
        self._left = 0

    def take(self, wanted: int) -> int:
        """How many lines may be written now, of so many."""
        now = time.monotonic()
        if now >= self.ends:
            self.ends = now + 1.0
            self._left = LINES_PER_SECOND
        taken = min(wanted, self._left)
        self._left -= taken
        return taken


_ration = Ration()


class JobLines:
    """Says of each completed job how long it took. Of those beyond a hundred lines a second only
    their number is told, in one line at the end of the second."""

    def __init__(self, ration: Ration = _ration) -> None:
        self._ration = ration
        self._untold = 0
        self._timer: asyncio.TimerHandle | None = None

    def settled(self, batch: Sequence[Settlement]) -> None:
        """The database has taken these outcomes."""
        if not logger.isEnabledFor(logging.INFO):
            return
        completed = [
            one for one in batch if one.transition is DONE or one.transition.state == COMPLETED
        ]
        lines = self._ration.take(len(completed))
        for settlement in completed[:lines]:
            attempt: Attempt | None = settlement.source
            if attempt is not None:
                logger.info(
                    "%r completed in %s.",
                    attempt,
                    span(attempt.seconds),
                    extra={**fields_of(attempt.job), "seconds": attempt.seconds},
                )
        if lines < len(completed):
            self._untold += len(completed) - lines
            if self._timer is None:
                rest = max(self._ration.ends - time.monotonic(), 0.0)
                self._timer = asyncio.get_running_loop().call_later(rest, self.close)

    def close(self) -> None:
        """Tell how many there were that had no line of their own."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        untold, self._untold = self._untold, 0
        if untold:
            logger.info("%s completed within a second.", counted(untold, "more job"))
