"""A waiting job's turn: what must be over before a worker takes it."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from penstock.insights.count import Count
from penstock.insights.limits import LimitInsight
from penstock.insights.window import Window, lane_window
from penstock.job import SCHEDULED, Job
from penstock.store.insights import Row

# A job's reason for waiting begins so if a budget had no units for it.
BUDGET = "budget:"


class Turn(Struct, frozen=True, kw_only=True):
    """Where a waiting job stands in its queue."""

    paused_at: datetime | None = None
    """Since when its lane has been paused."""
    window: Window = Window()
    others: Count = Count(0)
    """The other lanes with ready jobs, which take turns with its own."""
    ahead: Count = Count(0)
    """The ready jobs before it in its lane."""
    limits: tuple[LimitInsight, ...] = ()
    """The limits that hold for it."""


def keys_of(job: Job) -> list[str]:
    """The keys of all limits that may hold for a job."""
    own = (f"queue:{job.queue}", f"lane:{job.queue}:{job.lane}", f"task:{job.task}")
    budget = budget_of(job)
    return list(dict.fromkeys([*own, *job.limits, *([budget] if budget else [])]))


def budget_of(job: Job) -> str | None:
    """The key of the budget that a job was put off for, if it was."""
    is_put_off = job.state == SCHEDULED and (job.reason or "").startswith(BUDGET)
    return (job.reason or "").removeprefix(BUDGET) if is_put_off else None


def turn_from(row: Row | None, limits: tuple[LimitInsight, ...], most: int) -> Turn:
    """A turn from the row of `look_at_turn`, which counted up to `most`."""
    if row is None:
        return Turn(limits=limits)
    return Turn(
        paused_at=row["paused_at"],
        window=lane_window(row),
        others=Count.of(row["lanes"], most),
        ahead=Count.of(row["ahead"], most),
        limits=limits,
    )
