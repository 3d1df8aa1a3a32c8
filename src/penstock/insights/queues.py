"""Describe queues and lanes: how many jobs wait, for how long, and which workers serve them."""

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
    """Whether jobs may be taken now, and in how many seconds that changes."""

    is_open: bool = True
    changes_in: float | None = None
    """Seconds until it closes or opens; None if it never does."""

    @property
    def is_shut(self) -> bool:
        """Whether the window never opens."""
        return not self.is_open and self.changes_in is None

    def changes_at(self, now: datetime) -> datetime | None:
        """Return when the window closes or opens next, or None if it never does.

        The time is in whole seconds, since `now` is not exact.
        """
        if self.changes_in is None:
            return None
        return (now + timedelta(seconds=self.changes_in + 0.5)).replace(microsecond=0)

    def within(self, other: Window) -> Window:
        """Return the window that is open while both windows are open.

        If it is closed, it stays closed at least until each of the closed windows has opened.
        """
        if self.is_open and other.is_open:
            known = [each.changes_in for each in (self, other) if each.changes_in is not None]
            return Window(is_open=True, changes_in=min(known, default=None))
        closed = [each for each in (self, other) if not each.is_open]
        if any(each.changes_in is None for each in closed):
            return Window(is_open=False)
        return Window(is_open=False, changes_in=max(each.changes_in or 0.0 for each in closed))


def lane_window(row: Row) -> Window:
    """Return the window that applies to a lane: the lane's own one within that of its queue.

    The columns of both windows are removed from the row.
    """
    lane = Window(is_open=row.pop("lane_open"), changes_in=row.pop("lane_changes_in"))
    queue = Window(is_open=row.pop("queue_open"), changes_in=row.pop("queue_changes_in"))
    return lane.within(queue)


class LaneInsight(Struct, frozen=True, kw_only=True):
    """A lane of a queue in its present state."""

    name: str
    """The tenant, or what else the queue makes lanes of."""
    limits: tuple[str, ...]
    """The keys of the limits that apply to its jobs."""
    ready: Count
    running: Count
    late: Count
    waited: float | None
    """For how many seconds its oldest ready job has waited."""
    weight: int
    """How many jobs it may start each time that its turn comes."""
    paused_at: datetime | None
    window: Window

    @property
    def is_paused(self) -> bool:
        return self.paused_at is not None


class Lanes(Struct, frozen=True, kw_only=True):
    """A page of the lanes of a queue, the largest first."""

    queue: str
    lanes: tuple[LaneInsight, ...]
    number: Count
    """How many lanes the queue has."""
    following: str | None
    """The lane from which to go on, if there are more than were examined."""


def lanes_from(queue: str, rows: Sequence[Row], *, max_ready: int, max_running: int) -> Lanes:
    """Build `Lanes` from the rows of `get_lanes`, which counted jobs up to these bounds."""
    if not rows:
        return Lanes(queue=queue, lanes=(), number=Count(0), following=None)
    head = rows[0]
    number, following = Count(head["lanes"], head["is_whole"]), head["following"]
    return Lanes(
        queue=queue,
        lanes=tuple(_lane(row, max_ready, max_running) for row in rows),
        number=number,
        following=None if following is None else split_lane(following)[0],
    )


def _lane(row: Row, max_ready: int, max_running: int) -> LaneInsight:
    name, limits = split_lane(row["lane"])
    is_running_exact = row["running_seen"] <= max_running
    return LaneInsight(
        name=name,
        limits=limits,
        ready=Count.of(row["ready"], max_ready),
        running=Count(row["running"], is_running_exact),
        late=Count(row["late"], is_running_exact and row["ready"] <= max_ready),
        waited=row["waited"],
        weight=row["weight"],
        paused_at=row["paused_at"],
        window=lane_window(row),
    )


class QueueInsight(Struct, frozen=True, kw_only=True):
    """A queue in its present state."""

    name: str
    paused_at: datetime | None
    ready: Count
    scheduled: Count
    running: Count
    blocked: Count
    """Jobs that wait for others of their workflow, or for an event."""
    late: Count
    """Jobs in any of these states that are past their soft deadline."""
    waited: float | None
    """For how many seconds the oldest ready job has waited."""
    workers: tuple[str, ...]
    """The living workers that serve it."""
    slots: int
    """How many of its jobs these workers can run at once."""
    is_fair: bool
    """Whether its lanes take turns."""
    window: Window

    @property
    def is_paused(self) -> bool:
        return self.paused_at is not None

    @classmethod
    def empty(cls, name: str) -> QueueInsight:
        """Return the insight of a queue that nobody uses."""
        return cls(name=name, workers=(), slots=0, **_EMPTY)


class QueuePage(Struct, frozen=True, kw_only=True):
    """Some queues, and how many more there are.

    `left_out` counts only queues with ready jobs. In an overview it counts queues of any kind.
    """

    queues: tuple[QueueInsight, ...]
    left_out: Count
    after: str | None = None
    """Where the next page begins; None on the last one, and if no pages were requested."""


def page_from(
    rows: Sequence[Row],
    workers: Sequence[WorkerInsight],
    max_jobs: int,
    max_queues: int,
    *,
    after: str = "",
    until: str | None = None,
) -> QueuePage:
    """Build a page from the rows of `get_queues`, which counted jobs and queues up to these bounds.

    A queue that a worker serves but the rows lack is added if its name belongs on this page.
    """
    ready = rows[0]["ready_queues"] if rows else 0
    shown = sum(1 for row in rows if row["ready"])
    return QueuePage(
        queues=tuple(
            queue
            for queue in queues_from(rows, workers, max_jobs)
            if queue.name > after and (until is None or queue.name <= until)
        ),
        left_out=Count(max(ready - shown, 0), ready < max_queues),
        after=until,
    )


def busiest_from(
    rows: Sequence[Row],
    workers: Sequence[WorkerInsight],
    max_jobs: int,
    max_queues: int,
    limit: int,
) -> QueuePage:
    """Build a page of at most `limit` queues, the busy ones first.

    The rows come from `get_queues`, which returned busy queues first.
    """
    queues = queues_from(rows, workers, max_jobs)
    shown = {queue.name for queue in sorted(queues, key=_idleness)[:limit]}
    ready = rows[0]["ready_queues"] if rows else 0
    # The statement reads at most `limit` queues with ready jobs.
    unseen = max(ready - limit, 0) + (rows[0]["queues_in_all"] - len(rows) if rows else 0)
    return QueuePage(
        queues=tuple(queue for queue in queues if queue.name in shown),
        left_out=Count(unseen + len(queues) - len(shown), ready < max_queues),
    )


def _idleness(queue: QueueInsight) -> tuple[int, str]:
    if queue.ready.number or queue.running.number:
        return 0, queue.name
    return 1 if queue.scheduled.number or queue.blocked.number else 2, queue.name


def queues_from(
    rows: Iterable[Row], workers: Sequence[WorkerInsight], max_jobs: int
) -> list[QueueInsight]:
    """Describe the queues in the rows of `get_queues`, and those that only a worker names."""
    by_name: dict[str, Row] = {row["name"]: row for row in rows}
    living = [worker for worker in workers if worker.is_alive]
    served = {queue for worker in living for queue in worker.queues}
    names = sorted(by_name.keys() | served)
    return [_queue(name, by_name.get(name), living, max_jobs) for name in names]


def _queue(
    name: str, row: Row | None, living: Sequence[WorkerInsight], max_jobs: int
) -> QueueInsight:
    serving = [worker for worker in living if name in worker.queues]
    return QueueInsight(
        name=name,
        workers=tuple(worker.name for worker in serving),
        slots=sum(worker.queues[name] for worker in serving),
        **(_EMPTY if row is None else _counts(row, max_jobs)),
    )


def _counts(row: Row, max_jobs: int) -> dict[str, Any]:
    # These are counted over all queues together: beyond the bound no queue's part is exact.
    scheduled = Count(row["scheduled"], row["scheduled_in_all"] <= max_jobs)
    running = Count(row["running"], row["running_in_all"] <= max_jobs)
    blocked = Count(row["blocked"], row["blocked_in_all"] <= max_jobs)
    return {
        "paused_at": row["paused_at"],
        "ready": (ready := Count.of(row["ready"], max_jobs)),
        "scheduled": scheduled,
        "running": running,
        "blocked": blocked,
        "late": Count(row["late"], ready.is_exact and running.is_exact),
        "waited": row["waited"],
        "is_fair": row["fair"],
        "window": Window(is_open=row["open"], changes_in=row["changes_in"]),
    }


_EMPTY: dict[str, Any] = {
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
