"""Where a job is: with which worker, and how far."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from penstock.job import Progress
from penstock.store.insights import Row


class Place(Struct, frozen=True, kw_only=True):
    """Where a job is at a moment."""

    at: datetime
    worker: str | None
    """The worker that has it, if it runs."""
    is_alive: bool
    """Whether there is such a worker, and its lease holds."""
    progress: Progress | None
    late_after: float | None
    """How many seconds after it was due it counts as late, if it ever does."""
    late: float | None
    """For how many seconds it has been late."""


def progress_from(row: Row) -> Progress | None:
    """Progress from a row that has done, total and message; they are taken out of it."""
    done, total, message = row.pop("done"), row.pop("total"), row.pop("message")
    return None if done is None else Progress(done=done, total=total, message=message)


def place_from(row: Row) -> Place:
    """A place from the row of `look_at_place`."""
    return Place(progress=progress_from(row), **row)
