"""This worker's part of one limit: the slots that it was granted and the tokens that it took."""

from __future__ import annotations

import time

from penstock.store.rules import LimitRule
from penstock.worker.limits.buckets import Bucket
from penstock.worker.limits.slots import Slots

UNLIMITED = 1_000_000_000


class LimitGrant:
    """This worker's slots and tokens for one limited key.

    Starting a job takes a free slot, a token or both, depending on the limit.
    """

    __slots__ = (
        "answered_at",
        "claiming",
        "demand",
        "is_registered",
        "is_unneeded",
        "is_wanted_elsewhere",
        "key",
        "limit",
        "prefetched",
        "retry_at",
        "share",
        "slots",
        "tokens_held",
        "used_at",
    )

    def __init__(self, key: str, limit: LimitRule, max_ahead: int) -> None:
        self.key = key
        self.slots = Slots(0, max_ahead)
        self.tokens_held = Bucket()
        self.prefetched = 0
        self.claiming = 0
        # How many jobs wait to start; 0 while nothing has to be asked for.
        self.demand = 0
        # How many slots to go down to as jobs end, while other workers wait.
        self.share: int | None = None
        # Whether the database lists this worker as one that holds the key or waits for it.
        self.is_registered = False
        # Whether its slots are of no use, because the jobs that need them wait for another limit.
        self.is_unneeded = False
        # Whether another worker has asked for the key since the last answer.
        self.is_wanted_elsewhere = False
        # When to ask again: it was refused, or its bucket is empty or closed.
        self.retry_at = 0.0
        self.answered_at = 0.0
        self.used_at = time.monotonic()
        self.limit = limit

    def change(self, limit: LimitRule) -> None:
        """Put a new limit in force, and keep as many slots and tokens as it allows."""
        self.limit = limit
        self.tokens_held.limit_to(int(limit.burst or 0))
        if limit.slots is not None:
            self.slots.limit = min(self.slots.limit, limit.slots)
        self.share = None
        self.retry_at = 0.0

    def forget(self) -> None:
        """Forget the slots, because the lease that they belonged to is gone."""
        self.slots.limit = 0
        self.share = None
        self.is_registered = False
        self.retry_at = 0.0

    @property
    def tokens(self) -> int:
        return self.tokens_held.count

    @property
    def room(self) -> int:
        """How many more jobs may be claimed now."""
        held = self.prefetched + self.claiming
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
        return self.limit.rate is None or self.tokens_held.may_use

    def start(self) -> None:
        self.slots.take()
        if self.limit.rate is not None:
            self.tokens_held.use()

    def end(self) -> None:
        self.slots.give_back()

    @property
    def is_busy(self) -> bool:
        return bool(self.slots.used or self.prefetched or self.claiming)

    @property
    def is_idle(self) -> bool:
        return not (self.is_busy or self.demand)

    def shrink(self) -> bool:
        """Reduce the slots to this worker's share while other workers wait.

        Return whether there are slots to give back.
        """
        if self.share is None or self.slots.limit <= max(self.slots.used, self.share):
            return False
        self.slots.limit = max(self.slots.used, self.share)
        return True

    @property
    def tokens_wanted(self) -> int:
        """How many tokens to take at once: for jobs that wait now, or will start in a moment."""
        assert self.limit.rate is not None
        assert self.limit.burst is not None
        if not self.demand or (self.limit.slots is not None and self.slots.free <= 0):
            return 0
        most = max(1, min(int(self.limit.rate / 2), int(self.limit.burst)))
        return max(0, min(2 * max(self.demand, self.slots.soon), most) - self.tokens)
