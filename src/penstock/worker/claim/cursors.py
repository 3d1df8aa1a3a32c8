"""Cursors: where the next claim starts to read in each lane and priority of a queue.

A cursor is a hint, never the record. It saves a claim from walking over the dead index entries of
jobs long gone, which nobody can clean up while some transaction holds an old snapshot. A job may be
behind its cursor because its transaction committed late. Such a job is found by its NOTIFY, which
lowers the cursor, or by the next scan. A cursor that a claim has exhausted is dropped until a
notification or a scan brings it back.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from penstock.job import UNIT_SEPARATOR
from penstock.store import ClaimedJob, LaneCursor
from penstock.worker.claim.lanes import RoundRobin

CursorKey = tuple[str, int]
# From this many cursors on it matters where a worker begins.
MIN_CURSORS_TO_ROTATE = 20


class PlannedTake(NamedTuple):
    """A cursor from which a claim reads, and how many jobs it may take there."""

    cursor: LaneCursor
    max_jobs: int
    grants: tuple[Any, ...] = ()


class Cursors:
    """The known cursors of one queue, by the name of their lane.

    A lane's name leaves out the limit keys of its jobs, so jobs with different keys share their
    lane's turn.
    """

    def __init__(self, serves: Callable[[str], bool] = lambda lane_name: True) -> None:
        self._serves = serves
        self._cursors: dict[str, dict[CursorKey, LaneCursor]] = {}
        self._lowered: set[CursorKey] = set()
        self._news: dict[CursorKey, datetime] = {}
        self._scanned = False
        # The grants without room on which all known cursors waited when the last plan found
        # nothing.
        self.blocking_grants: Collection[Any] | None = None
        self.rotation = RoundRobin()

    def __bool__(self) -> bool:
        """Return whether there is a cursor to claim from.

        This is False before the first scan. A notification alone might make a claim skip jobs of
        higher priority.
        """
        return self._scanned and bool(self._cursors)

    def of_lane(self, lane_name: str) -> Collection[LaneCursor]:
        """Return the known cursors of a lane."""
        return self._cursors.get(lane_name, {}).values()

    def lower(self, lane: str, priority: int, ready_at: datetime) -> None:
        """Lower a cursor to a job that a notification reported."""
        if not self._serves(lane_name := parse_lane_name(lane)):
            return
        key = (lane, priority)
        self._lowered.add(key)
        self._news[key] = min(ready_at, self._news.get(key, ready_at))
        known = self._cursors.get(lane_name, {}).get(key)
        if known is None or ready_at < known.ready_at:
            self._set(lane_name, LaneCursor(lane, priority, ready_at, 0))

    def begin_claim(self) -> None:
        """Forget earlier reports, because a claim begins.

        It may miss jobs that are reported later.
        """
        self._news.clear()

    def advance(self, takes: Sequence[PlannedTake], jobs: Sequence[ClaimedJob], limit: int) -> None:
        """Move each cursor behind the last job that the claim took.

        If an earlier job was reported since the claim began, move the cursor to that job. Drop a
        cursor that is exhausted.
        """
        counts, last_jobs = _count_by_cursor(takes, jobs)
        for cursor, max_jobs, _ in takes:
            if (asked := min(max_jobs, limit)) <= 0:
                break
            key = (cursor.lane, cursor.priority)
            count = counts.get(key, 0)
            limit -= count
            lane_name = parse_lane_name(cursor.lane)
            if count:
                end = LaneCursor(*key, last_jobs[key].row["ready_at"], last_jobs[key].id)
                news = self._news.get(key, end.ready_at)
                self._set(lane_name, end if news >= end.ready_at else LaneCursor(*key, news, 0))
            if count < asked and key not in self._news:
                self._drop(lane_name, key)
                if not count:
                    self.rotation.move_to_front(lane_name)

    def begin_scan(self) -> None:
        """Note that a scan begins. It may miss jobs that are reported from now on."""
        self._lowered.clear()

    def end_scan(
        self, scanned: Sequence[LaneCursor], start: str = "", end: str | None = None
    ) -> None:
        """Replace the cursors from one lane to another by the cursors that a scan found.

        A cursor that was lowered during the scan stays, unless the scan found an earlier job.
        """
        seen = {(cursor.lane, cursor.priority) for cursor in scanned}
        gone = [
            (lane_name, key)
            for lane_name, cursors in self._cursors.items()
            for key in cursors
            if key not in seen
            and key not in self._lowered
            and start <= key[0]
            and (end is None or key[0] <= end)
        ]
        for lane_name, key in gone:
            self._drop(lane_name, key)
        for cursor in scanned if self._scanned else _rotate_randomly(scanned):
            if not self._serves(lane_name := parse_lane_name(cursor.lane)):
                continue
            key = (cursor.lane, cursor.priority)
            known = self._cursors.get(lane_name, {}).get(key)
            if key not in self._lowered or known is None or cursor.ready_at < known.ready_at:
                self._set(lane_name, cursor)
        self._scanned = True

    def _set(self, lane_name: str, cursor: LaneCursor) -> None:
        cursors = self._cursors.get(lane_name)
        if cursors is None:
            cursors = self._cursors[lane_name] = {}
            self.rotation.add(lane_name)
        key = (cursor.lane, cursor.priority)
        if key not in cursors:
            self.blocking_grants = None
        cursors[key] = cursor

    def _drop(self, lane_name: str, key: CursorKey) -> None:
        cursors = self._cursors.get(lane_name, {})
        cursors.pop(key, None)
        if not cursors and lane_name in self._cursors:
            del self._cursors[lane_name]
            self.rotation.remove(lane_name)


def _rotate_randomly(scanned: Sequence[LaneCursor]) -> Sequence[LaneCursor]:
    """Start the list at a random place, so that workers do not all begin in the same lane."""
    if len(scanned) < MIN_CURSORS_TO_ROTATE:
        return scanned
    start = random.randrange(len(scanned))
    return [*scanned[start:], *scanned[:start]]


def _count_by_cursor(
    takes: Sequence[PlannedTake], jobs: Sequence[ClaimedJob]
) -> tuple[dict[CursorKey, int], dict[CursorKey, ClaimedJob]]:
    """Return how many jobs came from each cursor, and the last job of each."""
    if len(takes) == 1 and jobs:
        cursor = takes[0].cursor
        key = (cursor.lane, cursor.priority)
        return {key: len(jobs)}, {key: jobs[-1]}
    counts: dict[CursorKey, int] = {}
    last_jobs: dict[CursorKey, ClaimedJob] = {}
    for job in jobs:
        row = job.row
        key = (row["lane"], row["priority"])
        counts[key] = counts.get(key, 0) + 1
        last_jobs[key] = job
    return counts, last_jobs


def parse_lane_name(lane: str) -> str:
    """Return the lane's name, without the limit keys that follow it."""
    return lane.partition(UNIT_SEPARATOR)[0]
