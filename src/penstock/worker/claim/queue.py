"""One queue in a worker: its slots, its marks, the jobs at hand."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from itertools import islice

from penstock.store import ClaimedJob
from penstock.store.rules import Rules
from penstock.worker.claim.cursors import Cursors
from penstock.worker.claim.micro_batch import Gathering
from penstock.worker.claim.prefetch import PrefetchBuffer
from penstock.worker.limits.slots import Slots
from penstock.worker.tenants import ALL, Tenants
from penstock.worker.timing import DEFAULT_TIMING, Timing

# So many of those who wait for their turn are looked at, whether they have a job at hand.
LOOK_AT = 20

logger = logging.getLogger("penstock.worker")


class QueueState:
    """What a worker knows of one queue."""

    def __init__(
        self,
        name: str,
        slots: int,
        ahead_most: int,
        tenants: Tenants = ALL,
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        self.name = name
        self.slots = Slots(slots, ahead_most, timing.ahead)
        self.gathering = Gathering(slots)
        self.marks = Cursors(tenants.serves)
        self._tenants = tenants
        self._told: str | None = None
        self.hand = PrefetchBuffer(
            lambda turn: self.weight(turn),
            lambda job: self.may_start(job),
            lambda: self.may_any_start(),
        )
        self.weight: Callable[[str], int] = lambda turn: 1
        self.may_start: Callable[[ClaimedJob], bool] = lambda job: True
        self.may_any_start: Callable[[], bool] = lambda: True
        self.is_barred: Callable[[str], bool] = lambda lane: False
        self.is_open = True
        self.closed: Collection[str] = frozenset()
        self.ageing: float | None = None
        # The last job fetched is a suspect that runs alone. There may be more of them: what else is
        # fetched would only be given back, so that it can begin elsewhere.
        self.is_wary = False

    def apply(self, rules: Rules) -> None:
        """Put the rules of this queue in force."""
        self.marks.held_by = None
        self.weight = rules.weights(self.name)
        self.closed = rules.closed(self.name)
        rule = next((rule for rule in rules.queues if rule.name == self.name), None)
        self.is_open = rule is None or rule.open
        self.ageing = rule.ageing if rule else None
        self.hand.is_limited = bool(rules.limits)
        self._warn(rule is not None and rule.by_tenant)

    def _warn(self, is_by_tenant: bool) -> None:
        """Say, once, that a choice of tenants has no effect here, or one that nobody wants."""
        problem = None if is_by_tenant else self._tenants.problem(self.name)
        if problem is not None and problem != self._told:
            logger.warning(problem)
        self._told = problem

    @property
    def has_open_lines(self) -> bool:
        """Whether some known line need not wait for a window or for somebody to open it."""
        return self.is_open and any(
            not self.is_barred(line.lane)
            for turn in self.marks.turns
            if turn not in self.closed
            for line in self.marks.lines(turn)
        )

    @property
    def wanted(self) -> int:
        """How many jobs a claim should ask for now; 0 while there is enough at hand."""
        at_hand = 0 if self.hand.is_held else len(self.hand)
        if self.is_wary:
            return 0 if at_hand else min(max(self.slots.free, 0), 1)
        ahead = self.slots.ahead
        if (room := self._room) > at_hand:
            # Where items come, further slots are for further calls: the next claim asks for them.
            free = 0 if self.gathering.expected else max(self.slots.free, 0)
            return free + ahead + room - at_hand
        if at_hand > ahead // 2:
            return self._guests(at_hand, ahead)
        return max(self.slots.free, 0) + ahead - at_hand

    @property
    def _room(self) -> int:
        """How many items have a place in the groups that gather, or in the next that could."""
        gathering = self.gathering
        return gathering.room or (gathering.expected if self.slots.free > gathering.full else 0)

    def _guests(self, at_hand: int, ahead: int) -> int:
        """Jobs of lanes that wait in this round while enough of others is at hand: without them
        the next free slots would go to who has had them before."""
        turns = self.marks.turns
        if len(turns) < 2 or not turns.waiting:
            return 0
        if at_hand <= 2 * ahead:
            return min(turns.waiting, ahead)
        # More is at hand than will be worked off in a moment: only for one who has nothing here.
        waiting = islice(turns, min(turns.waiting, LOOK_AT))
        return 1 if any(not self._is_at_hand(turn) for turn in waiting) else 0

    def _is_at_hand(self, turn: str) -> bool:
        return turn in self.closed or any(line.lane in self.hand for line in self.marks.lines(turn))
