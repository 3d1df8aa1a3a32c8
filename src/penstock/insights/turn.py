"""A waiting job's turn: what must be over before a worker takes it."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from penstock.insights.count import Count
from penstock.insights.limits import LimitInsight
from penstock.insights.window import Window, lane_window
from penstock.job import Job
from penstock.store.insights import Row


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
    return list(dict.fromkeys([*own, *job.limits]))


def turn_from(row: Row | None, limits: tuple[LimitInsight, ...], most: int) -> Turn:
    """A turn from the row of `look_at_turn.sql`, which counted up to `most`."""
    if row is None:
        return Turn(limits=limits)
    return Turn(
        paused_at=row["paused_at"],
        window=lane_window(row),
        others=Count.of(row["lanes"], most),
        ahead=Count.of(row["ahead"], most),
        limits=limits,
    )
