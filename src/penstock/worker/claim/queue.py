"""One queue in a worker: its slots, its cursors, and the jobs that it has fetched."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from itertools import islice

from penstock.store import ClaimedJob
from penstock.store.rules import Rules
from penstock.worker.claim.cursors import Cursors
from penstock.worker.claim.micro_batch import MicroBatchGroups
from penstock.worker.claim.prefetch import PrefetchBuffer
from penstock.worker.limits.slots import Slots
from penstock.worker.tenants import ALL, TenantFilter
from penstock.worker.timing import DEFAULT_TIMING, Timing

# At most this many waiting lanes are checked for prefetched jobs.
MAX_LANES_CHECKED = 20

logger = logging.getLogger("penstock.worker")


class QueueState:
    """The state of one queue in a worker."""

    def __init__(
        self,
        name: str,
        slots: int,
        max_ahead: int,
        tenants: TenantFilter = ALL,
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        self.name = name
        self.slots = Slots(slots, max_ahead, timing.ahead)
        self.groups = MicroBatchGroups(slots)
        self.cursors = Cursors(tenants.serves)
        self._tenants = tenants
        self._last_warning: str | None = None
        self.buffer = PrefetchBuffer(
            lambda lane_name: self.weight(lane_name),
            lambda job: self.may_start(job),
            lambda: self.may_any_start(),
        )
        self.weight: Callable[[str], int] = lambda lane_name: 1
        self.may_start: Callable[[ClaimedJob], bool] = lambda job: True
        self.may_any_start: Callable[[], bool] = lambda: True
        self.is_lane_stopped: Callable[[str], bool] = lambda lane: False
        self.is_open = True
        self.closed_lanes: Collection[str] = frozenset()
        self.ageing: float | None = None
        # The last job fetched is a suspect that runs alone. More suspects may follow, so jobs are
        # fetched one by one: others would only be given back, to start elsewhere.
        self.fetches_singly = False

    def apply(self, rules: Rules) -> None:
        """Put the rules of this queue in force."""
        self.cursors.blocking_grants = None
        self.weight = rules.weights(self.name)
        self.closed_lanes = rules.closed(self.name)
        rule = next((rule for rule in rules.queues if rule.name == self.name), None)
        self.is_open = rule is None or rule.open
        self.ageing = rule.ageing if rule else None
        self.buffer.is_limited = bool(rules.limits)
        self._warn(rule is not None and rule.by_tenant)

    def _warn(self, is_by_tenant: bool) -> None:
        """Warn once if the worker's choice of tenants has no effect in this queue."""
        problem = None if is_by_tenant else self._tenants.problem(self.name)
        if problem is not None and problem != self._last_warning:
            logger.warning(problem)
        self._last_warning = problem

    @property
    def has_claimable_cursors(self) -> bool:
        """Whether the queue is open, with cursors in lanes that are neither closed nor stopped."""
        return self.is_open and any(
            not self.is_lane_stopped(cursor.lane)
            for lane_name in self.cursors.rotation
            if lane_name not in self.closed_lanes
            for cursor in self.cursors.of_lane(lane_name)
        )

    @property
    def wanted(self) -> int:
        """How many jobs a claim should ask for now; 0 while enough are prefetched."""
        prefetched = 0 if self.buffer.is_blocked else len(self.buffer)
        if self.fetches_singly:
            return 0 if prefetched else min(max(self.slots.free, 0), 1)
        ahead = self.slots.ahead
        if (room := self._group_room) > prefetched:
            # While items come, further slots are for further calls, and the next claim asks for
            # those.
            free = 0 if self.groups.expected_items else max(self.slots.free, 0)
            return free + ahead + room - prefetched
        if prefetched > ahead // 2:
            return self._wanted_for_waiting_lanes(prefetched, ahead)
        return max(self.slots.free, 0) + ahead - prefetched

    @property
    def _group_room(self) -> int:
        """How many items fit into the open groups, or into the next group that could start."""
        groups = self.groups
        return groups.room or (groups.expected_items if self.slots.free > groups.full_groups else 0)

    def _wanted_for_waiting_lanes(self, prefetched: int, ahead: int) -> int:
        """Return how many jobs to fetch for lanes that wait for their turn in this round.

        Enough jobs of other lanes are prefetched. But without jobs of the waiting lanes, the next
        free slots would go to lanes that have had their turn.
        """
        rotation = self.cursors.rotation
        if len(rotation) < 2 or not rotation.waiting:
            return 0
        if prefetched <= 2 * ahead:
            return min(rotation.waiting, ahead)
        # More jobs are prefetched than will be done in a moment: fetch only for a lane that has
        # none.
        waiting = islice(rotation, min(rotation.waiting, MAX_LANES_CHECKED))
        return 1 if any(not self._is_prefetched(lane_name) for lane_name in waiting) else 0

    def _is_prefetched(self, lane_name: str) -> bool:
        return lane_name in self.closed_lanes or any(
            cursor.lane in self.buffer for cursor in self.cursors.of_lane(lane_name)
        )
