"""What this worker may do of one limit: slots that it was granted, tokens that it has taken."""

from __future__ import annotations

import time

from penstock.store.rules import Limit
from penstock.worker.limits.buckets import Bucket
from penstock.worker.limits.slots import Slots

UNLIMITED = 1_000_000_000


class Grant:
    """One limit's key in this worker. A start needs a free slot and a token, as its limit says."""

    __slots__ = (
        "ask_at",
        "asked_at",
        "at_hand",
        "claiming",
        "demand",
        "is_known",
        "is_spare",
        "is_wanted",
        "key",
        "limit",
        "share",
        "slots",
        "taken",
        "touched",
    )

    def __init__(self, key: str, limit: Limit, ahead_most: int) -> None:
        self.key = key
        self.slots = Slots(0, ahead_most)
        self.taken = Bucket()
        self.at_hand = 0
        self.claiming = 0
        # So many jobs would like to start that may not; 0 while nothing has to be asked for.
        self.demand = 0
        # What to go down to as jobs end, while others wait.
        self.share: int | None = None
        # Whether the database counts this worker among those who hold the key or wait for it.
        self.is_known = False
        # Whether its slots are of no use, because what needs them waits for another limit.
        self.is_spare = False
        # Whether another worker has asked for it since the last answer.
        self.is_wanted = False
        # Not before then: it was refused, or its bucket is empty or closed.
        self.ask_at = 0.0
        self.asked_at = 0.0
        self.touched = time.monotonic()
        self.limit = limit

    def change(self, limit: Limit) -> None:
        """A new limit is in force; what is held is kept as far as it allows."""
        self.limit = limit
        self.taken.keep(int(limit.burst or 0))
        if limit.slots is not None:
            self.slots.limit = min(self.slots.limit, limit.slots)
        self.share = None
        self.ask_at = 0.0

    def forget(self) -> None:
        """The lease is gone, and with it the slots."""
        self.slots.limit = 0
        self.share = None
        self.is_known = False
        self.ask_at = 0.0

    @property
    def tokens(self) -> int:
        return self.taken.count

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
        return self.limit.rate is None or self.taken.may_use

    def start(self) -> None:
        self.slots.take()
        if self.limit.rate is not None:
            self.taken.use()

    def end(self) -> None:
        self.slots.give_back()

    @property
    def is_busy(self) -> bool:
        return bool(self.slots.used or self.at_hand or self.claiming)

    @property
    def is_idle(self) -> bool:
        return not (self.is_busy or self.demand)

    def shrink(self) -> bool:
        """Use no more than the share while others wait; whether there are slots to give back."""
        if self.share is None or self.slots.limit <= max(self.slots.used, self.share):
            return False
        self.slots.limit = max(self.slots.used, self.share)
        return True

    @property
    def tokens_wanted(self) -> int:
        """How many tokens to take at a time: what is used up in a moment, or asked for now."""
        assert self.limit.rate is not None
        assert self.limit.burst is not None
        if not self.demand or (self.limit.slots is not None and self.slots.free <= 0):
            return 0
        most = max(1, min(int(self.limit.rate / 2), int(self.limit.burst)))
        return max(0, min(2 * max(self.demand, self.slots.soon), most) - self.tokens)
