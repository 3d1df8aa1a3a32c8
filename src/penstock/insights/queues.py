"""The queues in use and their lanes: what waits, for how long, who serves it and what holds it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from penstock.insights.counts import Count
from penstock.insights.workers import WorkerInsight
from penstock.job import split_lane
from penstock.store.insights import Row


class Window(Struct, frozen=True, kw_only=True):
    """Open or closed, and for how long still."""

    is_open: bool = True
    changes_in: float | None = None
    """Seconds until it closes or opens; None if it never does."""

    @property
    def is_shut(self) -> bool:
        """Whether it is closed for ever."""
        return not self.is_open and self.changes_in is None

    def changes_at(self, now: datetime) -> datetime | None:
        """When it closes or opens, to the second: `now` was read a moment before or after."""
        if self.changes_in is None:
            return None
        return (now + timedelta(seconds=self.changes_in + 0.5)).replace(microsecond=0)

    def within(self, other: Window) -> Window:
        """Both at once: open while both are. Closed, at least until the later of them opens."""
        if self.is_open and other.is_open:
            known = [each.changes_in for each in (self, other) if each.changes_in is not None]
            return Window(is_open=True, changes_in=min(known, default=None))
        closed = [each for each in (self, other) if not each.is_open]
        if any(each.changes_in is None for each in closed):
            return Window(is_open=False)
        return Window(is_open=False, changes_in=max(each.changes_in or 0.0 for each in closed))


def lane_window(row: Row) -> Window:
    """The window of a lane within its queue's, from a row that has both; taken out of it."""
    lane = Window(is_open=row.pop("lane_open"), changes_in=row.pop("lane_changes_in"))
    queue = Window(is_open=row.pop("queue_open"), changes_in=row.pop("queue_changes_in"))
    return lane.within(queue)


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
    """Lanes from the rows of `get_lanes`, which counted up to `most` and `running`."""
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


class QueueInsight(Struct, frozen=True, kw_only=True):
    """One queue as it is now."""

    name: str
    paused_at: datetime | None
    ready: Count
    scheduled: Count
    running: Count
    blocked: Count
    """Those that wait for others of their workflow, or for an event."""
    late: Count
    """Those of all these that are past their soft deadline."""
    waited: float | None
    """For how many seconds the oldest ready job has waited."""
    workers: tuple[str, ...]
    """The living workers that serve it."""
    slots: int
    """How many of its jobs these may run at once."""
    is_fair: bool
    """Whether its tenants, or what else makes its lanes, take turns."""
    window: Window

    @property
    def is_paused(self) -> bool:
        return self.paused_at is not None

    @classmethod
    def empty(cls, name: str) -> QueueInsight:
        """A queue that nobody uses."""
        return cls(name=name, workers=(), slots=0, **_NOTHING)


class QueuePage(Struct, frozen=True, kw_only=True):
    """Queues, and how many there are beyond them: with ready jobs or, in a glance, of any kind."""

    queues: tuple[QueueInsight, ...]
    left_out: Count
    after: str | None = None
    """Where the next page begins; None on the last, and where pages were not asked for."""


def page_from(
    rows: Sequence[Row],
    workers: Sequence[WorkerInsight],
    most: int,
    counted: int,
    *,
    after: str = "",
    until: str | None = None,
) -> QueuePage:
    """The page of the rows of `get_queues`, which counted queues only so far.

    Queues that only a worker knows belong to the page that has their names.
    """
    ready = rows[0]["ready_queues"] if rows else 0
    shown = sum(1 for row in rows if row["ready"])
    return QueuePage(
        queues=tuple(
            queue
            for queue in queues_from(rows, workers, most)
            if queue.name > after and (until is None or queue.name <= until)
        ),
        left_out=Count(max(ready - shown, 0), ready < counted),
        after=until,
    )


def glance_from(
    rows: Sequence[Row], workers: Sequence[WorkerInsight], most: int, counted: int, limit: int
) -> QueuePage:
    """At most `limit` queues, the busy ones first, and how many more there are.

    The rows are those of `get_queues` with the busy ones first.
    """
    found = queues_from(rows, workers, most)
    shown = {queue.name for queue in sorted(found, key=_idleness)[:limit]}
    ready = rows[0]["ready_queues"] if rows else 0
    # The statement takes no more queues with ready jobs than it shows queues.
    unseen = max(ready - limit, 0) + (rows[0]["queues_in_all"] - len(rows) if rows else 0)
    return QueuePage(
        queues=tuple(queue for queue in found if queue.name in shown),
        left_out=Count(unseen + len(found) - len(shown), ready < counted),
    )


def _idleness(queue: QueueInsight) -> tuple[int, str]:
    if queue.ready.number or queue.running.number:
        return 0, queue.name
    return 1 if queue.scheduled.number or queue.blocked.number else 2, queue.name


def queues_from(
    rows: Iterable[Row], workers: Sequence[WorkerInsight], most: int
) -> list[QueueInsight]:
    """Queues from the rows of `get_queues`, and those that only a worker knows."""
    found: dict[str, Row] = {row["name"]: row for row in rows}
    living = [worker for worker in workers if worker.is_alive]
    served = {queue for worker in living for queue in worker.queues}
    return [_queue(name, found.get(name), living, most) for name in sorted(found.keys() | served)]


def _queue(name: str, row: Row | None, living: Sequence[WorkerInsight], most: int) -> QueueInsight:
    serving = [worker for worker in living if name in worker.queues]
    return QueueInsight(
        name=name,
        workers=tuple(worker.name for worker in serving),
        slots=sum(worker.queues[name] for worker in serving),
        **(_NOTHING if row is None else _counts(row, most)),
    )


def _counts(row: Row, most: int) -> dict[str, Any]:
    # These were counted over all queues together: over the limit no part is known exactly.
    scheduled = Count(row["scheduled"], row["scheduled_in_all"] <= most)
    running = Count(row["running"], row["running_in_all"] <= most)
    blocked = Count(row["blocked"], row["blocked_in_all"] <= most)
    return {
        "paused_at": row["paused_at"],
        "ready": (ready := Count.of(row["ready"], most)),
        "scheduled": scheduled,
        "running": running,
        "blocked": blocked,
        "late": Count(row["late"], ready.is_exact and running.is_exact),
        "waited": row["waited"],
        "is_fair": row["fair"],
        "window": Window(is_open=row["open"], changes_in=row["changes_in"]),
    }


_NOTHING: dict[str, Any] = {
    "paused_at": None,
    "ready": Count(0),
    "scheduled": Count(0),
    "running": Count(0),
    "blocked": Count(0),
    "late": Count(0),
    "waited": None,
    "is_fair": False,
    "window": Window(),
}
