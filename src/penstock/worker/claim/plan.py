"""Plans a claim: from which cursors it reads, and how many jobs it may take from each."""

from __future__ import annotations

from typing import NamedTuple

from penstock.store import LaneCursor
from penstock.worker.claim.cursors import PlannedTake, parse_lane_name
from penstock.worker.claim.queue import QueueState
from penstock.worker.limits.book import Grants
from penstock.worker.limits.grants import LimitGrant
from penstock.worker.limits.keeper import LimitKeeper

# A plan may ask the limits of at least this many cursors: other workers often hold some's slots.
MIN_ASKS = 64
# A plan reads from this many more cursors than jobs are wanted: other workers may have emptied
# some.
SPARE_CURSORS = 20


class ClaimPlan(NamedTuple):
    """The takes of one claim, in order.

    If there are no takes and `is_asking` is set, the worker has asked for more slots or tokens.
    Planning again before the answer is of no use.
    """

    takes: list[PlannedTake]
    is_asking: bool = False


NOTHING = ClaimPlan([])


def plan_claim(state: QueueState, limit_keeper: LimitKeeper, wanted: int) -> ClaimPlan:
    """Choose the cursors of the next claim.

    A single lane is asked for all wanted jobs, its highest priority first. Several lanes take
    weighted turns. A claim asks each lane once, for as many rounds as it has room for, and the next
    claim goes on with the next lane.
    """
    if not state.is_open:
        return NOTHING
    if not limit_keeper.book.is_on:
        return _Planner(state, limit_keeper, wanted).plan()
    shared = limit_keeper.book.grants_of_queue(state.name)
    if room := limit_keeper.room(shared, wanted, wanted):
        plan = _Planner(state, limit_keeper, room).plan()
    else:
        plan = ClaimPlan([], limit_keeper.is_asking(shared))
    if not plan.takes and not plan.is_asking:
        limit_keeper.release_unused()
    return plan


def release_room(takes: list[PlannedTake], limit_keeper: LimitKeeper) -> None:
    """Release the room that a claim reserved under limits. The claimed jobs are counted by now."""
    for _, max_jobs, grants in takes:
        for grant in grants:
            grant.claiming -= max_jobs
            limit_keeper.release_if_wanted(grant)


class _Planner:
    """Plans one claim over the lanes of a queue."""

    def __init__(self, state: QueueState, limit_keeper: LimitKeeper, wanted: int) -> None:
        self._state = state
        self._limit_keeper = limit_keeper
        self._book = limit_keeper.book
        self._wanted = wanted
        self._takes: list[PlannedTake] = []
        self._unserved_lanes: list[str] = []
        self._is_asking = False
        self._asks_left = max(wanted, MIN_ASKS)
        # The grants that have no room. They are not asked again.
        self._full: set[LimitGrant] = set()

    def plan(self) -> ClaimPlan:
        rotation = self._state.cursors.rotation
        if len(rotation) != 1:
            self._take_in_rotation()
        elif (lane_name := rotation.next()) not in self._state.closed_lanes:
            self._take_from_all(lane_name)
        return ClaimPlan(self._takes, self._is_asking)

    def _take_from_all(self, lane_name: str) -> None:
        """Take from all cursors of the only lane, up to a few more cursors than wanted jobs."""
        for cursor in self._sort_cursors(lane_name):
            take = self._take_from(cursor, self._wanted)
            if take is not None and take.max_jobs:
                self._takes.append(take)
            elif take is not None:
                self._note_ask()
            if len(self._takes) >= self._wanted + SPARE_CURSORS or self._asks_left <= 0:
                break

    def _note_ask(self) -> None:
        self._is_asking = True
        self._asks_left -= 1

    def _take_in_rotation(self) -> None:
        cursors = self._state.cursors
        rotation, rounds = cursors.rotation, self._rounds()
        for _ in range(len(rotation)):
            if (
                self._wanted <= 0
                or self._asks_left <= 0
                or (cursors.blocking_grants and self._full.issuperset(cursors.blocking_grants))
            ):
                break
            lane_name = rotation.next()
            if lane_name not in self._state.closed_lanes:
                self._take_one_turn(lane_name, rounds)
        else:
            if not self._takes and not self._is_asking:
                cursors.blocking_grants = frozenset(self._full)
        for lane_name in reversed(self._unserved_lanes):
            rotation.move_to_front(lane_name)
        self._add_rounds()

    def _rounds(self) -> int:
        """Return how many whole rounds of all lanes, by weight, fit into the claim; at least 1."""
        rotation = self._state.cursors.rotation
        if not rotation or len(rotation) >= self._wanted:
            return 1
        return max(1, self._wanted // sum(self._state.weight(lane_name) for lane_name in rotation))

    def _take_one_turn(self, lane_name: str, rounds: int) -> None:
        rotation, weight = self._state.cursors.rotation, self._state.weight(lane_name)
        due = weight * (rounds - 1) + (rotation.resume(lane_name) or weight)
        max_jobs = min(due, self._wanted)
        take = self._take_from_lane(lane_name, max_jobs)
        if take is None:
            return
        self._wanted -= take.max_jobs
        if take.max_jobs:
            self._takes.append(take)
        else:
            self._unserved_lanes.append(lane_name)
            self._note_ask()
        if max_jobs < due and take.max_jobs == max_jobs:
            # The claim is full in the middle of a turn, so the next claim continues it.
            self._unserved_lanes.append(lane_name)
            rotation.interrupt(lane_name, due - max_jobs)

    def _add_rounds(self) -> None:
        """Give the chosen lanes more rounds, because all other lanes are closed or have no room."""
        weights = [self._state.weight(parse_lane_name(take.cursor.lane)) for take in self._takes]
        rounds = self._wanted // sum(weights) if weights else 0
        if rounds <= 0:
            return
        for place, (take, weight) in enumerate(zip(self._takes, weights, strict=True)):
            more = rounds * weight
            if take.grants:
                more = self._limit_keeper.room(take.grants, more, more)
                _reserve(take.grants, more)
            self._takes[place] = take._replace(max_jobs=take.max_jobs + more)

    def _take_from_lane(self, lane_name: str, max_jobs: int) -> PlannedTake | None:
        """Plan a take from the lane's first cursor that has room.

        If no cursor has room, return the take of the first one that waits for more slots or tokens,
        or None if none waits.
        """
        asking = None
        for cursor in self._sort_cursors(lane_name):
            take = self._take_from(cursor, max_jobs)
            if take is not None and take.max_jobs:
                return take
            asking = asking or take
        return asking

    def _take_from(self, cursor: LaneCursor, max_jobs: int) -> PlannedTake | None:
        """Plan a take from a cursor, or return None if the cursor's limits are full.

        While the worker waits for more slots or tokens, the take is for 0 jobs.
        """
        if not self._book.is_on:
            return PlannedTake(cursor, max_jobs)
        grants = self._book.grants_of_lane(self._state.name, cursor.lane)
        if not grants:
            return PlannedTake(cursor, max_jobs)
        if not self._full.isdisjoint(grants):
            return None
        room = self._limit_keeper.room(grants, max_jobs, self._wanted)
        if room:
            _reserve(grants, room)
            return PlannedTake(cursor, room, grants)
        if self._limit_keeper.is_asking(grants):
            return PlannedTake(cursor, 0)
        self._full.update(grant for grant in grants if not grant.room)
        return None

    def _sort_cursors(self, lane_name: str) -> list[LaneCursor]:
        """Sort a lane's cursors by priority, or with ageing by priority and waiting time."""
        cursors = self._state.cursors.of_lane(lane_name)
        if len(cursors) == 1:
            return list(cursors)
        if (ageing := self._state.ageing) is None:
            return sorted(cursors, key=lambda cursor: (-cursor.priority, cursor.ready_at))
        return sorted(
            cursors, key=lambda cursor: cursor.ready_at.timestamp() / ageing - cursor.priority
        )


def _reserve(grants: Grants, jobs: int) -> None:
    for grant in grants:
        grant.claiming += jobs
