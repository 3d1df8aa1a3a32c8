"""Which lines a claim looks at, and how many jobs it may take from each."""

from __future__ import annotations

from typing import NamedTuple

from penstock.store import LaneCursor
from penstock.worker.claim.cursors import Visit, turn_of
from penstock.worker.claim.queue import QueueState
from penstock.worker.limits.book import Grants
from penstock.worker.limits.grants import Grant
from penstock.worker.limits.keeper import LimitKeeper

# So many lines are asked about at once at least: often another worker has the slots of some.
ASKS = 64
# So many lines more than there are jobs wanted are looked at: some will have gone to others.
SPARE = 20


class Choice(NamedTuple):
    """The visits of one claim, in order. Without any, limits may have been asked for: it is no use
    to choose again before they have answered."""

    visits: list[Visit]
    is_asking: bool = False


NOTHING = Choice([])


def choose(state: QueueState, limiter: LimitKeeper, wanted: int) -> Choice:
    """Which lines the next claim visits.

    One lane alone is asked for all that is wanted, its highest priority first. Several take
    weighted turns: each is visited once, for as many rounds as the claim has room for, and the
    next claim goes on where this one ends.
    """
    if not state.is_open:
        return NOTHING
    if not limiter.holdings.is_on:
        return _Round(state, limiter, wanted).choose()
    shared = limiter.holdings.of_queue(state.name)
    if room := limiter.room(shared, wanted, wanted):
        choice = _Round(state, limiter, room).choose()
    else:
        choice = Choice([], limiter.is_asking(shared))
    if not choice.visits and not choice.is_asking:
        limiter.let_go_unused()
    return choice


def end(visits: list[Visit], limiter: LimitKeeper) -> None:
    """All that the claim brought is at hand: what it might have taken is no longer kept for it."""
    for _, take, grants in visits:
        for grant in grants:
            grant.claiming -= take
            limiter.spare(grant)


class _Round:
    """One claim on its way through the lanes of a queue."""

    def __init__(self, state: QueueState, limiter: LimitKeeper, wanted: int) -> None:
        self._state = state
        self._limiter = limiter
        self._holdings = limiter.holdings
        self._wanted = wanted
        self._visits: list[Visit] = []
        self._again: list[str] = []
        self._is_asking = False
        self._asks = max(wanted, ASKS)
        # The limits that were found without room: they are not asked again.
        self._full: set[Grant] = set()

    def choose(self) -> Choice:
        turns = self._state.marks.turns
        if len(turns) != 1:
            self._take_turns()
        elif (turn := turns.next()) not in self._state.closed:
            self._visit_all(turn)
        return Choice(self._visits, self._is_asking)

    def _visit_all(self, turn: str) -> None:
        """All lines of the only turn; not many more than there are jobs wanted."""
        for line in self._in_order(turn):
            visit = self._visit(line, self._wanted)
            if visit is not None and visit.take:
                self._visits.append(visit)
            elif visit is not None:
                self._asked()
            if len(self._visits) >= self._wanted + SPARE or self._asks <= 0:
                break

    def _asked(self) -> None:
        self._is_asking = True
        self._asks -= 1

    def _take_turns(self) -> None:
        marks = self._state.marks
        turns, rounds = marks.turns, self._rounds()
        for _ in range(len(turns)):
            if (
                self._wanted <= 0
                or self._asks <= 0
                or (marks.held_by and self._full.issuperset(marks.held_by))
            ):
                break
            turn = turns.next()
            if turn not in self._state.closed:
                self._take_turn(turn, rounds)
        else:
            if not self._visits and not self._is_asking:
                marks.held_by = frozenset(self._full)
        for turn in reversed(self._again):
            turns.again(turn)
        self._widen()

    def _rounds(self) -> int:
        """How many whole rounds of all lanes, by their weights, there is room for; at least 1."""
        turns = self._state.marks.turns
        if not turns or len(turns) >= self._wanted:
            return 1
        return max(1, self._wanted // sum(self._state.weight(turn) for turn in turns))

    def _take_turn(self, turn: str, rounds: int) -> None:
        turns, weight = self._state.marks.turns, self._state.weight(turn)
        due = weight * (rounds - 1) + (turns.rest(turn) or weight)
        most = min(due, self._wanted)
        visit = self._visit_one(turn, most)
        if visit is None:
            return
        self._wanted -= visit.take
        if visit.take:
            self._visits.append(visit)
        else:
            self._again.append(turn)
            self._asked()
        if most < due and visit.take == most:
            # The claim is full in the middle of a turn: the next goes on with it.
            self._again.append(turn)
            turns.leave_off(turn, due - most)

    def _widen(self) -> None:
        """More rounds of those who were visited: all others are closed or have no room."""
        weights = [self._state.weight(turn_of(visit.line.lane)) for visit in self._visits]
        rounds = self._wanted // sum(weights) if weights else 0
        if rounds <= 0:
            return
        for place, (visit, weight) in enumerate(zip(self._visits, weights, strict=True)):
            more = rounds * weight
            if visit.grants:
                more = self._limiter.room(visit.grants, more, more)
                _reserve(visit.grants, more)
            self._visits[place] = visit._replace(take=visit.take + more)

    def _visit_one(self, turn: str, most: int) -> Visit | None:
        """The first line of this turn that has room, or that waits to be told whether it has."""
        asking = None
        for line in self._in_order(turn):
            visit = self._visit(line, most)
            if visit is not None and visit.take:
                return visit
            asking = asking or visit
        return asking

    def _visit(self, line: LaneCursor, most: int) -> Visit | None:
        """A visit of this line; for nothing if its limits are only being asked about."""
        if not self._holdings.is_on:
            return Visit(line, most)
        grants = self._holdings.of_line(self._state.name, line.lane)
        if not grants:
            return Visit(line, most)
        if not self._full.isdisjoint(grants):
            return None
        take = self._limiter.room(grants, most, self._wanted)
        if take:
            _reserve(grants, take)
            return Visit(line, take, grants)
        if self._limiter.is_asking(grants):
            return Visit(line, 0)
        self._full.update(grant for grant in grants if not grant.room)
        return None

    def _in_order(self, turn: str) -> list[LaneCursor]:
        """The lines of one turn, highest priority first; what has waited long rises, if it may."""
        lines = self._state.marks.lines(turn)
        if len(lines) == 1:
            return list(lines)
        if (ageing := self._state.ageing) is None:
            return sorted(lines, key=lambda line: (-line.priority, line.ready_at))
        return sorted(lines, key=lambda line: line.ready_at.timestamp() / ageing - line.priority)


def _reserve(grants: Grants, take: int) -> None:
    for grant in grants:
        grant.claiming += take
