"""The jobs at hand: claimed for one queue and not begun yet."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from penstock.store import ClaimedJob
from penstock.worker.claim.cursors import turn_of
from penstock.worker.claim.lanes import RoundRobin

# While a whole queue has to wait, its lanes are asked so often, for those that wait too long.
ASK_ALL = 0.1


class PrefetchBuffer:
    """Gives out its jobs in weighted turns between their lanes, those first that may start.

    Most queues have one lane: its jobs are a plain row.
    """

    def __init__(
        self,
        weight: Callable[[str], int] = lambda turn: 1,
        may_start: Callable[[ClaimedJob], bool] = lambda job: True,
        may_any_start: Callable[[], bool] = lambda: True,
    ) -> None:
        self._weight = weight
        self._may_start = may_start
        self._may_any_start = may_any_start
        self._row: deque[ClaimedJob] = deque()
        self._lanes: dict[str, deque[ClaimedJob]] = {}
        self._turns = RoundRobin()
        self._turn: str | None = None
        self._left = 0
        self._size = 0
        # Whether there are limits at all, so that each start must be asked for.
        self.is_limited = False
        # Since when the first job of a lane may not start; and those of whom nobody knows yet.
        self._held_since: dict[str, float] = {}
        self._newly_held: list[str] = []
        self._looked = 0.0
        # When all lanes were last asked in vain.
        self._asked_all = 0.0
        # Whether none may start: they are no reason to fetch less.
        self.is_held = False

    def __len__(self) -> int:
        return len(self._row) + self._size

    def __iter__(self) -> Iterator[ClaimedJob]:
        yield from self._row
        for jobs in self._lanes.values():
            yield from jobs

    def __contains__(self, lane: str) -> bool:
        """Whether a job of this lane is at hand."""
        return lane in self._lanes or (bool(self._row) and self._row[0].row["lane"] == lane)

    def extend(self, jobs: Sequence[ClaimedJob], lane: str | None) -> None:
        """Add what was claimed, in the order of its lines; `lane` if all are of one."""
        if not jobs:
            return
        self.is_held = False
        is_row = lane is not None and not self._lanes and not self.is_limited
        if is_row and (not self._row or self._row[0].row["lane"] == lane):
            self._row.extend(jobs)
            return
        self._break_row()
        self._sort(jobs)

    def _break_row(self) -> None:
        """From now on there are several lanes; the one there was has had its turn."""
        if self._row:
            row, self._row = self._row, deque()
            self._sort(row)
            self._turns.next()

    def _sort(self, jobs: Iterable[ClaimedJob]) -> None:
        for job in jobs:
            lane = job.row["lane"]
            of_lane = self._lanes.get(lane)
            if of_lane is None:
                of_lane = self._lanes[lane] = deque()
                self._turns.join(lane)
            of_lane.append(job)
            self._size += 1

    def take(self) -> ClaimedJob | None:
        """The next job that may start; None if there is none."""
        self.is_held = False
        if self._row and not self.is_limited:
            return self._row.popleft()
        self._break_row()
        if not self._size:
            return None
        if self.is_limited and not self._may_any_start() and self._asked_lately():
            self.is_held = True
            return None
        if self._turn is not None and self._left > 0:
            job = self._take_from(self._turn)
            if job is not None:
                self._left -= 1
                return job
        for _ in range(len(self._turns)):
            lane = self._turns.next()
            job = self._take_from(lane)
            if job is not None:
                self._turn, self._left = lane, self._weight(turn_of(lane)) - 1
                return job
        self.is_held = True
        self._asked_all = time.monotonic()
        return None

    def _asked_lately(self) -> bool:
        """Whether to ask each lane can wait: the whole queue may start nothing now."""
        return time.monotonic() - self._asked_all < ASK_ALL

    def _take_from(self, lane: str) -> ClaimedJob | None:
        jobs = self._lanes.get(lane)
        if not jobs:
            return None
        if self.is_limited and not self._may_start(jobs[0]):
            if lane not in self._held_since:
                self._held_since[lane] = time.monotonic()
                self._newly_held.append(lane)
            return None
        if self._held_since:
            self._held_since.pop(lane, None)
        job = jobs.popleft()
        self._size -= 1
        if not jobs:
            self._forget(lane)
        return job

    def _forget(self, lane: str) -> None:
        del self._lanes[lane]
        self._held_since.pop(lane, None)
        self._turns.leave(lane)
        if lane == self._turn:
            self._turn = None

    def heads(self) -> list[ClaimedJob]:
        """The job of each lane that is next."""
        return [*list(self._row)[:1], *(jobs[0] for jobs in self._lanes.values())]

    def newly_held(self) -> list[ClaimedJob]:
        """The jobs that hold up their lanes, each once."""
        lanes, self._newly_held = self._newly_held, []
        return [self._lanes[lane][0] for lane in lanes if lane in self._held_since]

    def long_held(self, seconds: float) -> list[str]:
        """The lanes of which none has been allowed to start for so long; looks now and then."""
        now = time.monotonic()
        if not self._held_since or now - self._looked < seconds / 2:
            return []
        self._looked = now
        return [lane for lane, since in self._held_since.items() if now - since >= seconds]

    def hold_none(self) -> None:
        """The rules are new: each lane is asked for anew."""
        self._held_since.clear()
        self._newly_held.clear()
        self.is_held = False

    def of_lane(self, lane: str) -> list[ClaimedJob]:
        """The jobs of a lane."""
        return list(self._lanes.get(lane, ()))

    def remove(self, job: ClaimedJob) -> None:
        if job in self._row:
            self._row.remove(job)
            return
        lane = job.row["lane"]
        self._lanes[lane].remove(job)
        self._held_since.pop(lane, None)
        self._size -= 1
        if not self._lanes[lane]:
            self._forget(lane)

    def clear(self) -> list[ClaimedJob]:
        """Give up all of them."""
        held = list(self)
        self._row.clear()
        self._lanes.clear()
        self.hold_none()
        self._turns = RoundRobin()
        self._turn = None
        self._size = 0
        return held
