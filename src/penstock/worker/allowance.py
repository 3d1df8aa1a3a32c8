"""What this worker may do of one limit: slots that it was granted, tokens that it has taken."""

from __future__ import annotations

import time

from penstock.store.rules import Limit
from penstock.worker.slots import Slots

UNLIMITED = 1_000_000_000


class Allowance:
    """One limit's key in this worker. A start needs a free slot and a token, as its limit says."""

    __slots__ = (
        "ask_at",
        "at_hand",
        "claiming",
        "demand",
        "is_over_share",
        "key",
        "limit",
        "needed",
        "slots",
        "tokens",
        "touched",
    )

    def __init__(self, key: str, limit: Limit, ahead_most: int) -> None:
        self.key = key
        self.slots = Slots(0, ahead_most)
        self.tokens = 0
        self.at_hand = 0
        self.claiming = 0
        self.demand = 0
        self.is_over_share = False
        # Not before then: it was refused, or its bucket is empty or closed.
        self.ask_at = 0.0
        self.touched = self.needed = time.monotonic()
        self.limit = limit

    @property
    def room(self) -> int:
        """How many more jobs may be claimed now."""
        held = self.at_hand + self.claiming
        room = UNLIMITED
        if self.limit.slots is not None:
            room = self.slots.free + self.slots.ahead - held if self.slots.limit else 0
        if self.limit.rate is not None:
            room = min(room, self.tokens - held)
        return max(room, 0)

    @property
    def may_start(self) -> bool:
        if self.limit.slots is not None and self.slots.free <= 0:
            return False
        return self.limit.rate is None or self.tokens > 0

    def start(self) -> None:
        self.slots.take()
        if self.limit.rate is not None:
            self.tokens -= 1

    def end(self) -> None:
        self.slots.give_back()

    @property
    def is_idle(self) -> bool:
        return not (self.slots.used or self.at_hand or self.claiming or self.demand)

    @property
    def tokens_wanted(self) -> int:
        """How many tokens to take at a time: what is used up in a moment, or asked for now."""
        assert self.limit.rate is not None
        assert self.limit.burst is not None
        most = max(1, min(int(self.limit.rate / 2), int(self.limit.burst)))
        return min(2 * max(self.demand, self.slots.soon), most)
