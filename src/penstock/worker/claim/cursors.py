"""Low-water marks: where in each line of a queue the next claim begins.

A mark is a hint, never the record. It saves a claim from walking over the dead entries of jobs
long gone, which nobody can clean up while some transaction holds an old snapshot. A job behind
its mark (its transaction committed late) is found by its NOTIFY, which lowers the mark, or by the
next scan. A line that a claim has used up is forgotten until one of these tells of it again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from penstock.job import UNIT_SEPARATOR
from penstock.store import ClaimedJob, LaneCursor
from penstock.worker.claim.lanes import RoundRobin

Key = tuple[str, int]
# From so many lines on it matters where a worker begins.
MANY = 20


class Visit(NamedTuple):
    """A line that a claim looks at, and how many jobs it may take there."""

    line: LaneCursor
    take: int
    grants: tuple[Any, ...] = ()


class Cursors:
    """The known lines of one queue, by who takes the turn with them."""

    def __init__(self, serves: Callable[[str], bool] = lambda turn: True) -> None:
        self._serves = serves
        self._lines: dict[str, dict[Key, LaneCursor]] = {}
        self._lowered: set[Key] = set()
        self._news: dict[Key, datetime] = {}
        self._scanned = False
        # The limits for which all known lines waited when they were last looked through in vain.
        self.held_by: Collection[Any] | None = None
        self.turns = RoundRobin()

    def __bool__(self) -> bool:
        """Whether there is a line to claim from. News alone must not lead past a line of higher
        priority, so nothing is known before the first scan."""
        return self._scanned and bool(self._lines)

    def lines(self, turn: str) -> Collection[LaneCursor]:
        """The known lines of one that takes turns."""
        return self._lines.get(turn, {}).values()

    def lower(self, lane: str, priority: int, ready_at: datetime) -> None:
        """News of jobs in a line: begin no later than there."""
        if not self._serves(turn := turn_of(lane)):
            return
        key = (lane, priority)
        self._lowered.add(key)
        self._news[key] = min(ready_at, self._news.get(key, ready_at))
        known = self._lines.get(turn, {}).get(key)
        if known is None or ready_at < known.ready_at:
            self._set(turn, LaneCursor(lane, priority, ready_at, 0))

    def begin_claim(self) -> None:
        """A claim is about to look; news from now on may be of jobs that it passes over."""
        self._news.clear()

    def advance(self, visits: Sequence[Visit], jobs: Sequence[ClaimedJob], limit: int) -> None:
        """After a claim: go on behind the last job of each line, or where newer news says."""
        got, ends = _counted(visits, jobs)
        for line, take, _ in visits:
            if (asked := min(take, limit)) <= 0:
                break
            key = (line.lane, line.priority)
            count = got.get(key, 0)
            limit -= count
            turn = turn_of(line.lane)
            if count:
                end = LaneCursor(*key, ends[key].row["ready_at"], ends[key].id)
                news = self._news.get(key, end.ready_at)
                self._set(turn, end if news >= end.ready_at else LaneCursor(*key, news, 0))
            if count < asked and key not in self._news:
                self._drop(turn, key)
                if not count:
                    self.turns.again(turn)

    def begin_scan(self) -> None:
        """A scan is about to look; news from now on is newer than what it will see."""
        self._lowered.clear()

    def end_scan(
        self, found: Sequence[LaneCursor], start: str = "", end: str | None = None
    ) -> None:
        """What the scan saw from one lane to another replaces what was known there, but for the
        lines with newer news."""
        seen = {(line.lane, line.priority) for line in found}
        gone = [
            (turn, key)
            for turn, lines in self._lines.items()
            for key in lines
            if key not in seen
            and key not in self._lowered
            and start <= key[0]
            and (end is None or key[0] <= end)
        ]
        for turn, key in gone:
            self._drop(turn, key)
        for line in found if self._scanned else _from_anywhere(found):
            if not self._serves(turn := turn_of(line.lane)):
                continue
            key = (line.lane, line.priority)
            known = self._lines.get(turn, {}).get(key)
            if key not in self._lowered or known is None or line.ready_at < known.ready_at:
                self._set(turn, line)
        self._scanned = True

    def _set(self, turn: str, line: LaneCursor) -> None:
        lines = self._lines.get(turn)
        if lines is None:
            lines = self._lines[turn] = {}
            self.turns.join(turn)
        key = (line.lane, line.priority)
        if key not in lines:
            self.held_by = None
        lines[key] = line

    def _drop(self, turn: str, key: Key) -> None:
        lines = self._lines.get(turn, {})
        lines.pop(key, None)
        if not lines and turn in self._lines:
            del self._lines[turn]
            self.turns.leave(turn)


def _from_anywhere(found: Sequence[LaneCursor]) -> Sequence[LaneCursor]:
    """The same lines, begun somewhere: workers that start together do not all go the same way."""
    if len(found) < MANY:
        return found
    start = random.randrange(len(found))
    return [*found[start:], *found[:start]]


def _counted(
    visits: Sequence[Visit], jobs: Sequence[ClaimedJob]
) -> tuple[dict[Key, int], dict[Key, ClaimedJob]]:
    """How many jobs came of each line, and which was the last."""
    if len(visits) == 1 and jobs:
        line = visits[0].line
        key = (line.lane, line.priority)
        return {key: len(jobs)}, {key: jobs[-1]}
    got: dict[Key, int] = {}
    ends: dict[Key, ClaimedJob] = {}
    for job in jobs:
        row = job.row
        key = (row["lane"], row["priority"])
        got[key] = got.get(key, 0) + 1
        ends[key] = job
    return got, ends


def turn_of(lane: str) -> str:
    """Who takes the turn with this lane."""
    return lane.partition(UNIT_SEPARATOR)[0]
