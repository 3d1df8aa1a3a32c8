"""The lanes of a queue: how much waits in each, how often it gets its turn, and what holds it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from penstock.insights.count import Count
from penstock.insights.window import Window, lane_window
from penstock.job import split_lane
from penstock.store.insights import Row


class LaneInsight(Struct, frozen=True, kw_only=True):
    """One lane of a queue as it is now."""

    name: str
    """Who takes the turn: a tenant, or what else the queue makes lanes of."""
    limits: tuple[str, ...]
    """The keys of the limits that its jobs wait for."""
    ready: Count
    running: Count
    late: Count
    waited: float | None
    """For how many seconds its oldest ready job has waited."""
    weight: int
    """How many jobs it may begin each time it is its turn."""
    paused_at: datetime | None
    window: Window

    @property
    def is_paused(self) -> bool:
        return self.paused_at is not None


class Lanes(Struct, frozen=True, kw_only=True):
    """Some lanes of a queue, the largest first."""

    queue: str
    lanes: tuple[LaneInsight, ...]
    number: Count
    """How many there are."""
    following: str | None
    """Where to go on looking, if there are more than were looked at."""


def lanes_from(queue: str, rows: Sequence[Row], *, most: int, running: int) -> Lanes:
    """Lanes from the rows of `look_at_lanes`, which counted up to `most` and `running`."""
    if not rows:
        return Lanes(queue=queue, lanes=(), number=Count(0), following=None)
    head = rows[0]
    number, following = Count(head["lanes"], head["is_whole"]), head["following"]
    return Lanes(
        queue=queue,
        lanes=tuple(_lane(row, most, running) for row in rows),
        number=number,
        following=None if following is None else split_lane(following)[0],
    )


def _lane(row: Row, most: int, running: int) -> LaneInsight:
    name, limits = split_lane(row["lane"])
    knows_running = row["running_seen"] <= running
    return LaneInsight(
        name=name,
        limits=limits,
        ready=Count.of(row["ready"], most),
        running=Count(row["running"], knows_running),
        late=Count(row["late"], knows_running and row["ready"] <= most),
        waited=row["waited"],
        weight=row["weight"],
        paused_at=row["paused_at"],
        window=lane_window(row),
    )
