"""The prefetch buffer: jobs that were claimed for one queue and have not begun."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from penstock.store import ClaimedJob
from penstock.worker.claim.cursors import parse_lane_name
from penstock.worker.claim.lanes import RoundRobin

# While a whole queue is blocked, its lanes are checked this often for jobs that have waited too
# long.
RECHECK_BLOCKED_S = 0.1


class PrefetchBuffer:
    """Gives out jobs in weighted turns between their lanes, and skips jobs that may not start.

    Most queues have one lane, whose jobs are kept in a plain deque.
    """

    def __init__(
        self,
        weight: Callable[[str], int] = lambda lane_name: 1,
        may_start: Callable[[ClaimedJob], bool] = lambda job: True,
        may_any_start: Callable[[], bool] = lambda: True,
    ) -> None:
        self._weight = weight
        self._may_start = may_start
        self._may_any_start = may_any_start
        self._single_lane: deque[ClaimedJob] = deque()
        self._lanes: dict[str, deque[ClaimedJob]] = {}
        self._rotation = RoundRobin()
        self._current_lane: str | None = None
        self._left_in_turn = 0
        self._size = 0
        # Whether there are limits at all, so that each start must be checked.
        self.is_limited = False
        # Since when the first job of each lane may not start, and the lanes not yet reported by
        # pop_newly_blocked.
        self._blocked_since: dict[str, float] = {}
        self._newly_blocked: list[str] = []
        self._listed_at = 0.0
        # When all lanes were last checked and none could start.
        self._all_checked_at = 0.0
        # Whether no job may start. Such jobs are no reason to fetch less.
        self.is_blocked = False

    def __len__(self) -> int:
        return len(self._single_lane) + self._size

    def __iter__(self) -> Iterator[ClaimedJob]:
        yield from self._single_lane
        for jobs in self._lanes.values():
            yield from jobs

    def __contains__(self, lane: str) -> bool:
        """Return whether a job of this lane is in the buffer."""
        return lane in self._lanes or (
            bool(self._single_lane) and self._single_lane[0].row["lane"] == lane
        )

    def extend(self, jobs: Sequence[ClaimedJob], lane: str | None) -> None:
        """Add claimed jobs in the order of their cursors.

        `lane` is set if all belong to one lane.
        """
        if not jobs:
            return
        self.is_blocked = False
        is_single_lane = lane is not None and not self._lanes and not self.is_limited
        if is_single_lane and (not self._single_lane or self._single_lane[0].row["lane"] == lane):
            self._single_lane.extend(jobs)
            return
        self._split_by_lane()
        self._add_by_lane(jobs)

    def _split_by_lane(self) -> None:
        """Keep jobs by lane from now on. The lane that was the only one has had its turn."""
        if self._single_lane:
            jobs, self._single_lane = self._single_lane, deque()
            self._add_by_lane(jobs)
            self._rotation.next()

    def _add_by_lane(self, jobs: Iterable[ClaimedJob]) -> None:
        for job in jobs:
            lane = job.row["lane"]
            lane_jobs = self._lanes.get(lane)
            if lane_jobs is None:
                lane_jobs = self._lanes[lane] = deque()
                self._rotation.add(lane)
            lane_jobs.append(job)
            self._size += 1

    def pop(self) -> ClaimedJob | None:
        """Remove and return the next job that may start, or None if no job may start."""
        self.is_blocked = False
        if self._single_lane and not self.is_limited:
            return self._single_lane.popleft()
        self._split_by_lane()
        if not self._size:
            return None
        if self.is_limited and not self._may_any_start() and self._checked_recently():
            self.is_blocked = True
            return None
        if self._current_lane is not None and self._left_in_turn > 0:
            job = self._pop_from(self._current_lane)
            if job is not None:
                self._left_in_turn -= 1
                return job
        for _ in range(len(self._rotation)):
            lane = self._rotation.next()
            job = self._pop_from(lane)
            if job is not None:
                self._current_lane, self._left_in_turn = (
                    lane,
                    self._weight(parse_lane_name(lane)) - 1,
                )
                return job
        self.is_blocked = True
        self._all_checked_at = time.monotonic()
        return None

    def _checked_recently(self) -> bool:
        """Return whether no lane could start a job so recently that checking each can wait."""
        return time.monotonic() - self._all_checked_at < RECHECK_BLOCKED_S

    def _pop_from(self, lane: str) -> ClaimedJob | None:
        jobs = self._lanes.get(lane)
        if not jobs:
            return None
        if self.is_limited and not self._may_start(jobs[0]):
            if lane not in self._blocked_since:
                self._blocked_since[lane] = time.monotonic()
                self._newly_blocked.append(lane)
            return None
        if self._blocked_since:
            self._blocked_since.pop(lane, None)
        job = jobs.popleft()
        self._size -= 1
        if not jobs:
            self._remove_lane(lane)
        return job

    def _remove_lane(self, lane: str) -> None:
        del self._lanes[lane]
        self._blocked_since.pop(lane, None)
        self._rotation.remove(lane)
        if lane == self._current_lane:
            self._current_lane = None

    def first_jobs(self) -> list[ClaimedJob]:
        """Return the next job of each lane."""
        return [*list(self._single_lane)[:1], *(jobs[0] for jobs in self._lanes.values())]

    def pop_newly_blocked(self) -> list[ClaimedJob]:
        """Return the jobs that block their lanes and were not returned by an earlier call."""
        lanes, self._newly_blocked = self._newly_blocked, []
        return [self._lanes[lane][0] for lane in lanes if lane in self._blocked_since]

    def list_long_blocked(self, seconds: float) -> list[str]:
        """Return the lanes that have been blocked for at least these seconds.

        The lanes are checked only now and then. Between two checks the list is empty.
        """
        now = time.monotonic()
        if not self._blocked_since or now - self._listed_at < seconds / 2:
            return []
        self._listed_at = now
        return [lane for lane, since in self._blocked_since.items() if now - since >= seconds]

    def unblock_all(self) -> None:
        """Forget which lanes are blocked, so that each is checked again under the new rules."""
        self._blocked_since.clear()
        self._newly_blocked.clear()
        self.is_blocked = False

    def jobs_of_lane(self, lane: str) -> list[ClaimedJob]:
        """Return the jobs of a lane."""
        return list(self._lanes.get(lane, ()))

    def remove(self, job: ClaimedJob) -> None:
        if job in self._single_lane:
            self._single_lane.remove(job)
            return
        lane = job.row["lane"]
        self._lanes[lane].remove(job)
        self._blocked_since.pop(lane, None)
        self._size -= 1
        if not self._lanes[lane]:
            self._remove_lane(lane)

    def clear(self) -> list[ClaimedJob]:
        """Remove and return all jobs."""
        jobs = list(self)
        self._single_lane.clear()
        self._lanes.clear()
        self.unblock_all()
        self._rotation = RoundRobin()
        self._current_lane = None
        self._size = 0
        return jobs
