"""What it means that the database refuses an attempt's write."""

from __future__ import annotations

from penstock.errors import StaleAttempt
from penstock.store import failures
from penstock.worker.run import Run, StopReason


def stale(run: Run, error: Exception) -> StaleAttempt | None:
    """What to raise if the job is no longer this attempt's; the run is told that it is not.

    Not stopped by force: the handler must be able to roll back.
    """
    if (reason := _why(error)) is None:
        return None
    run.stopped = run.stopped or reason
    return StaleAttempt(str(run.attempt.id), run.attempt.number)


def _why(error: Exception) -> StopReason | None:
    if failures.is_state(error, failures.STALE_ATTEMPT):
        return "refused"
    return "lost" if failures.is_state(error, failures.LEASE_LOST) else None
