"""Which lines a claim looks at, and how many jobs it may take from each."""

from __future__ import annotations

from typing import NamedTuple

from penstock.store import Line
from penstock.worker.allowance import Allowance
from penstock.worker.limiter import Allowances, Limiter
from penstock.worker.marks import Visit, turn_of
from penstock.worker.queue_state import QueueState

# So many lines more than there are jobs wanted are looked at: some will have gone to others.
SPARE = 20


class Choice(NamedTuple):
    """The visits of one claim, in order. Without any, limits may have been asked for: it is no use
    to choose again before they have answered."""

    visits: list[Visit]
    is_asking: bool = False


NOTHING = Choice([])


def choose(state: QueueState, limiter: Limiter, wanted: int) -> Choice:
    """Which lines the next claim visits.

    One lane alone is asked for all that is wanted, its highest priority first. Several take
    weighted turns: each is visited once, for as many rounds as the claim has room for, and the
    next claim goes on where this one ends.
    """
    if not state.is_open:
        return NOTHING
    choice = _choose(state, limiter, wanted)
    if limiter.is_on and not choice.visits and not choice.is_asking:
        limiter.let_go_unused()
    return choice


def _choose(state: QueueState, limiter: Limiter, wanted: int) -> Choice:
    if limiter.is_on:
        shared = limiter.of_queue(state.name)
        wanted = limiter.room(shared, wanted, wanted)
        if not wanted:
            return Choice([], limiter.is_asking(shared))
    turns = state.marks.turns
    if len(turns) == 1:
        turn = turns.next()
        return NOTHING if turn in state.closed else _visit_all(state, limiter, turn, wanted)
    return _take_turns(state, limiter, wanted)


def _take_turns(state: QueueState, limiter: Limiter, wanted: int) -> Choice:
    turns = state.marks.turns
    visits: list[Visit] = []
    again: list[str] = []
    full: set[Allowance] = set()
    is_asking = False
    rounds = _rounds(state, wanted)
    held_by = state.marks.held_by
    for _ in range(len(turns)):
        if wanted <= 0 or (held_by and full.issuperset(held_by)):
            break
        turn = turns.next()
        if turn in state.closed:
            continue
        weight = state.weight(turn)
        due = weight * (rounds - 1) + (turns.rest(turn) or weight)
        most = min(due, wanted)
        visit = _visit_one(state, limiter, turn, most, wanted, full)
        if visit is None:
            continue
        wanted -= visit.take or most
        if visit.take:
            visits.append(visit)
        else:
            again.append(turn)
            is_asking = True
        if most < due and visit.take == most:
            # The claim is full in the middle of a turn: the next goes on with it.
            again.append(turn)
            turns.leave_off(turn, due - most)
    else:
        if not visits and not is_asking:
            state.marks.held_by = frozenset(full)
    for turn in reversed(again):
        turns.again(turn)
    return Choice(_widened(state, limiter, visits, wanted), is_asking)


def _rounds(state: QueueState, wanted: int) -> int:
    """How many whole rounds of all lanes, each by its weight, a claim has room for; at least 1."""
    turns = state.marks.turns
    if len(turns) >= wanted:
        return 1
    return max(1, wanted // sum(state.weight(turn) for turn in turns)) if turns else 1


def _widened(state: QueueState, limiter: Limiter, visits: list[Visit], wanted: int) -> list[Visit]:
    """More rounds of those who were visited: all others are closed or have no room."""
    weights = [state.weight(turn_of(visit.line.lane)) for visit in visits]
    rounds = wanted // sum(weights) if weights else 0
    if rounds <= 0:
        return visits
    wider = []
    for visit, weight in zip(visits, weights, strict=True):
        more = rounds * weight
        if visit.allowances:
            more = limiter.room(visit.allowances, more, more)
            _reserve(visit.allowances, more)
        wider.append(visit._replace(take=visit.take + more))
    return wider


def _visit_all(state: QueueState, limiter: Limiter, turn: str, wanted: int) -> Choice:
    """All lines of the only turn; not many more than there are jobs wanted."""
    visits: list[Visit] = []
    full: set[Allowance] = set()
    is_asking = False
    for line in _in_order(state, turn):
        visit = _visit(state, limiter, line, wanted, wanted, full)
        if visit is None:
            continue
        if visit.take:
            visits.append(visit)
        else:
            is_asking = True
        if len(visits) >= wanted + SPARE:
            break
    return Choice(visits, is_asking)


def _visit_one(
    state: QueueState,
    limiter: Limiter,
    turn: str,
    most: int,
    wanted: int,
    full: set[Allowance],
) -> Visit | None:
    """The first line of this turn that has room, or that waits to be told whether it has."""
    asking = None
    for line in _in_order(state, turn):
        visit = _visit(state, limiter, line, most, wanted, full)
        if visit is not None and visit.take:
            return visit
        asking = asking or visit
    return asking


def _visit(
    state: QueueState,
    limiter: Limiter,
    line: Line,
    most: int,
    wanted: int,
    full: set[Allowance],
) -> Visit | None:
    """A visit of this line; for nothing if its limits are only being asked about.

    `full` are the limits that this claim has found without room: they are not asked again.
    """
    if not limiter.is_on or not (allowances := limiter.of_line(state.name, line.lane)):
        return Visit(line, most)
    if not full.isdisjoint(allowances):
        return None
    take = limiter.room(allowances, most, wanted)
    if not take:
        if limiter.is_asking(allowances):
            return Visit(line, 0)
        full.update(allowance for allowance in allowances if not allowance.room)
        return None
    _reserve(allowances, take)
    return Visit(line, take, allowances)


def _reserve(allowances: Allowances, take: int) -> None:
    for allowance in allowances:
        allowance.claiming += take


def _in_order(state: QueueState, turn: str) -> list[Line]:
    """The lines of one turn, highest priority first; what has waited long rises, if it may."""
    lines = state.marks.lines(turn)
    if len(lines) == 1:
        return list(lines)
    if (ageing := state.ageing) is not None:
        return sorted(lines, key=lambda line: line.ready_at.timestamp() / ageing - line.priority)
    return sorted(lines, key=lambda line: (-line.priority, line.ready_at))


def end(visits: list[Visit]) -> None:
    """The claim has been answered: what it might have taken is no longer kept for it."""
    for _, take, allowances in visits:
        for allowance in allowances:
            allowance.claiming -= take
