"""Low-water marks: where in each line of a queue the next claim begins.

A mark is a hint, never the record. It saves a claim from walking over the dead entries of jobs
long gone, which nobody can clean up while some transaction holds an old snapshot. A job behind
its mark (its transaction committed late) is found by its NOTIFY, which lowers the mark, or by the
next scan.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from penstock.store import Attempt, Line


class Marks:
    """The known lines of one queue, highest priority first."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, int], Line] = {}
        self._lowered: set[tuple[str, int]] = set()
        self._news: dict[tuple[str, int], datetime] = {}
        self._sorted: list[Line] | None = None
        self._scanned = False

    def __bool__(self) -> bool:
        """Whether there is a line to claim from. News alone must not lead past a line of higher
        priority, so nothing is known before the first scan."""
        return self._scanned and bool(self._lines)

    def lines(self) -> list[Line]:
        if self._sorted is None:
            self._sorted = sorted(
                self._lines.values(), key=lambda line: (-line.priority, line.lane)
            )
        return self._sorted

    def lower(self, lane: str, priority: int, ready_at: datetime) -> None:
        """News of jobs in a line: begin no later than there."""
        key = (lane, priority)
        self._lowered.add(key)
        self._news[key] = min(ready_at, self._news.get(key, ready_at))
        known = self._lines.get(key)
        if known is None or ready_at < known.ready_at:
            self._set(Line(lane, priority, ready_at, 0))

    def begin_claim(self) -> None:
        """A claim is about to look; news from now on may be of jobs that it passes over."""
        self._news.clear()

    def advance(self, attempts: Sequence[Attempt]) -> None:
        """After a claim: go on behind the last job of each line, or where newer news says."""
        ends: dict[tuple[str, int], Attempt] = {}
        for attempt in attempts:
            row = attempt.row
            ends[row["lane"], row["priority"]] = attempt
        for (lane, priority), last in ends.items():
            end = Line(lane, priority, last.row["ready_at"], last.id)
            news = self._news.get((lane, priority), end.ready_at)
            self._set(end if news >= end.ready_at else Line(lane, priority, news, 0))

    def begin_scan(self) -> None:
        """A scan is about to look; news from now on is newer than what it will see."""
        self._lowered.clear()

    def end_scan(self, found: Sequence[Line]) -> None:
        """What the scan saw replaces what was known, but for the lines with newer news."""
        kept = {key: line for key, line in self._lines.items() if key in self._lowered}
        self._lines = {(line.lane, line.priority): line for line in found}
        for key, line in kept.items():
            known = self._lines.get(key)
            if known is None or line.ready_at < known.ready_at:
                self._lines[key] = line
        self._sorted = None
        self._scanned = True

    def _set(self, line: Line) -> None:
        self._lines[line.lane, line.priority] = line
        self._sorted = None
