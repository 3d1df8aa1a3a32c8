"""Single jobs among many: what has been running for longest, what failed last."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from penstock.insights.place import progress_from
from penstock.job import Progress
from penstock.store.insights import Row


class RunningJob(Struct, frozen=True, kw_only=True):
    """A job under way."""

    id: str
    task: str
    queue: str
    tenant: str
    attempt: int
    started_at: datetime
    seconds: float
    worker: str | None
    is_alive: bool
    """Whether that worker is; the jobs of a lost one go back to their queue."""
    progress: Progress | None


class FailedJob(Struct, frozen=True, kw_only=True):
    """A job that failed, and of what."""

    id: str
    task: str
    queue: str
    tenant: str
    reason: str
    attempt: int
    finished_at: datetime
    seconds_ago: float
    error_type: str | None
    error_message: str | None


def running_from(row: Row) -> RunningJob:
    """A job from a row of `look_at_running`."""
    progress = progress_from(row)
    return RunningJob(**(row | {"id": str(row["id"])}), progress=progress)


def failed_from(row: Row) -> FailedJob:
    """A job from a row of `look_at_failures`."""
    return FailedJob(**(row | {"id": str(row["id"])}))
