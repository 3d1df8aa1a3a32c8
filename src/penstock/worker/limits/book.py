"""What this worker holds of each limit, and which limits hold for which jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock.job import UNIT_SEPARATOR, split_lane
from penstock.store import ClaimedJob
from penstock.store.rules import Limit, Rules
from penstock.worker.limits.grants import Grant

# So many lines are remembered with their limits.
LINES = 50_000

Grants = tuple[Grant, ...]


class LimitBook:
    """The grants of a worker, one for each limited key that its jobs have."""

    def __init__(self, ahead_most: int) -> None:
        self._ahead_most = ahead_most
        self._rules = Rules()
        self._grants: dict[str, Grant] = {}
        self._by_line: dict[tuple[str, str], Grants] = {}
        self._by_job: dict[tuple[str, str, str], Grants] = {}
        # Whether there is any limit.
        self.is_on = False

    def __len__(self) -> int:
        return len(self._grants)

    def __iter__(self) -> Iterator[Grant]:
        return iter(tuple(self._grants.values()))

    def get(self, key: str) -> Grant | None:
        return self._grants.get(key)

    def apply(self, rules: Rules) -> list[Grant]:
        """Put new limits in force: those whose grant they change."""
        self._rules = rules
        self.is_on = bool(rules.limits)
        self._forget_lines()
        changed = []
        for key, grant in self._grants.items():
            # One that nothing limits any more is kept for what runs with it, and given back.
            limit = rules.limit_of(key) or Limit(key)
            if limit != grant.limit:
                grant.change(limit)
                changed.append(grant)
        return changed

    def forget(self) -> None:
        """The lease is gone, and with it all that was granted."""
        for grant in self._grants.values():
            grant.forget()

    def drop(self, grant: Grant) -> None:
        """Nothing has to do with it any more."""
        del self._grants[grant.key]
        self._forget_lines()

    def trim(self) -> None:
        """Keep what is remembered of lines within bounds."""
        if len(self._by_line) + len(self._by_job) > LINES:
            self._forget_lines()

    def _forget_lines(self) -> None:
        self._by_line.clear()
        self._by_job.clear()

    def has_rate(self, key: str) -> bool:
        """Whether a key has a bucket."""
        limit = self._rules.limit_of(key)
        return limit is not None and limit.rate is not None

    def of_queue(self, queue: str) -> Grants:
        """The grants that all lines of a queue share."""
        return self._find([f"queue:{queue}"])

    def barred(self, queue: str, lane: str) -> bool:
        """Whether nothing of a line may run until somebody raises its limit."""
        return any(one.limit.slots == 0 for one in self.of_line(queue, lane))

    def of_line(self, queue: str, lane: str) -> Grants:
        """The grants that a claim from this line must keep to."""
        found = self._by_line.get((queue, lane))
        if found is None:
            turn, keys = split_lane(lane)
            found = self._find([f"queue:{queue}", f"lane:{queue}:{turn}", *keys])
            self._by_line[queue, lane] = found
        return found

    def _find(self, keys: Iterable[str]) -> Grants:
        return tuple(found for key in keys if (found := self._grant(key)) is not None)

    def _grant(self, key: str) -> Grant | None:
        grant = self._grants.get(key)
        if grant is None:
            limit = self._rules.limit_of(key)
            if limit is None:
                return None
            grant = self._grants[key] = Grant(key, limit, self._ahead_most)
        return grant

    def of_job(self, job: ClaimedJob) -> Grants:
        """The grants that one job needs, also those that came up after it was enqueued."""
        lane = job.row["lane"]
        key = (job.queue, lane, job.task)
        found = self._by_job.get(key)
        if found is None:
            found = self.of_line(job.queue, lane)
            task = self._grant(f"task:{job.task}")
            if task is not None and task not in found:
                found = (*found, task)
            self._by_job[key] = found
        return found

    def proper_lane(self, job: ClaimedJob) -> str | None:
        """Where a job belongs that stands in a line without its task's limit; None if it is right.

        The limit is newer than the job. In a line of its own it does not hold up the others.
        """
        lane, key = job.row["lane"], f"task:{job.task}"
        turn, keys = split_lane(lane)
        if key in keys or self._rules.limit_of(key) is None:
            return None
        return UNIT_SEPARATOR.join([turn, *sorted([*keys, key])])
