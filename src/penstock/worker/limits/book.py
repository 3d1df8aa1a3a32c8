"""The grants that this worker has, and which limits apply to which jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock.job import UNIT_SEPARATOR, split_lane
from penstock.store import ClaimedJob
from penstock.store.rules import LimitRule, Rules
from penstock.worker.limits.grants import LimitGrant

# The limits of this many lanes are remembered.
MAX_LANES_REMEMBERED = 50_000

Grants = tuple[LimitGrant, ...]


class LimitBook:
    """The grants of a worker: one for each limited key that its jobs have."""

    def __init__(self, max_ahead: int) -> None:
        self._max_ahead = max_ahead
        self._rules = Rules()
        self._grants: dict[str, LimitGrant] = {}
        self._by_lane: dict[tuple[str, str], Grants] = {}
        self._by_job: dict[tuple[str, str, str], Grants] = {}
        # Whether there is any limit.
        self.is_on = False

    def __len__(self) -> int:
        return len(self._grants)

    def __iter__(self) -> Iterator[LimitGrant]:
        return iter(tuple(self._grants.values()))

    def get(self, key: str) -> LimitGrant | None:
        return self._grants.get(key)

    def apply(self, rules: Rules) -> list[LimitGrant]:
        """Put new limits in force, and return the grants that they change."""
        self._rules = rules
        self.is_on = bool(rules.limits)
        self._forget_lanes()
        changed = []
        for key, grant in self._grants.items():
            # A key without a limit is kept for the jobs that run with it, and then given back.
            limit = rules.limit_of(key) or LimitRule(key)
            if limit != grant.limit:
                grant.change(limit)
                changed.append(grant)
        return changed

    def forget(self) -> None:
        """Forget all slots, because the lease that they belonged to is gone."""
        for grant in self._grants.values():
            grant.forget()

    def drop(self, grant: LimitGrant) -> None:
        """Drop a grant that nothing uses any more."""
        del self._grants[grant.key]
        self._forget_lanes()

    def trim(self) -> None:
        """Forget which limits apply to which lanes once too many lanes are remembered."""
        if len(self._by_lane) + len(self._by_job) > MAX_LANES_REMEMBERED:
            self._forget_lanes()

    def _forget_lanes(self) -> None:
        self._by_lane.clear()
        self._by_job.clear()

    def has_rate(self, key: str) -> bool:
        """Return whether a key has a rate limit, and so a bucket."""
        limit = self._rules.limit_of(key)
        return limit is not None and limit.rate is not None

    def grants_of_queue(self, queue: str) -> Grants:
        """Return the grants that all lanes of a queue share."""
        return self._find([f"queue:{queue}"])

    def is_lane_stopped(self, queue: str, lane: str) -> bool:
        """Return whether a limit of 0 stops a lane until somebody raises the limit."""
        return any(grant.limit.slots == 0 for grant in self.grants_of_lane(queue, lane))

    def grants_of_lane(self, queue: str, lane: str) -> Grants:
        """Return the grants that a claim from this lane must keep to."""
        grants = self._by_lane.get((queue, lane))
        if grants is None:
            lane_name, keys = split_lane(lane)
            grants = self._find([f"queue:{queue}", f"lane:{queue}:{lane_name}", *keys])
            self._by_lane[queue, lane] = grants
        return grants

    def _find(self, keys: Iterable[str]) -> Grants:
        return tuple(grant for key in keys if (grant := self._grant(key)) is not None)

    def _grant(self, key: str) -> LimitGrant | None:
        grant = self._grants.get(key)
        if grant is None:
            limit = self._rules.limit_of(key)
            if limit is None:
                return None
            grant = self._grants[key] = LimitGrant(key, limit, self._max_ahead)
        return grant

    def grants_of_job(self, job: ClaimedJob) -> Grants:
        """Return the grants that a job needs, including limits that are newer than the job."""
        lane = job.row["lane"]
        key = (job.queue, lane, job.task)
        grants = self._by_job.get(key)
        if grants is None:
            grants = self.grants_of_lane(job.queue, lane)
            task = self._grant(f"task:{job.task}")
            if task is not None and task not in grants:
                grants = (*grants, task)
            self._by_job[key] = grants
        return grants

    def proper_lane(self, job: ClaimedJob) -> str | None:
        """Return the lane that a job should move to, or None if the job is in the right lane.

        If a limit of its task was set after the job was enqueued, the job's lane lacks that limit.
        In a lane with the limit, the job does not block jobs of other tasks.
        """
        lane, key = job.row["lane"], f"task:{job.task}"
        lane_name, keys = split_lane(lane)
        if key in keys or self._rules.limit_of(key) is None:
            return None
        return UNIT_SEPARATOR.join([lane_name, *sorted([*keys, key])])
