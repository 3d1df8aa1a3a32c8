"""Tokens that a worker has taken from a bucket and not used yet."""

from __future__ import annotations

import math
import time
from collections import deque

# A token is for now: kept for longer, it would let more start at once than the burst.
FRESH = 0.1


class Bucket:
    """The oldest are used first; those that nobody used in time go back."""

    __slots__ = ("_batches", "count")

    def __init__(self) -> None:
        self.count = 0
        self._batches: deque[tuple[float, int]] = deque()

    def put(self, count: int, taken_at: float) -> None:
        self._batches.append((taken_at, count))
        self.count += count

    @property
    def stale_at(self) -> float:
        """When the oldest will have been kept for too long."""
        return self._batches[0][0] + FRESH if self._batches else math.inf

    @property
    def may_use(self) -> bool:
        return self.count > 0 and time.monotonic() <= self.stale_at

    def use(self) -> None:
        """Use one; if there was none, the next is owed."""
        self.count -= 1
        if self._batches:
            taken_at, count = self._batches.popleft()
            if count > 1:
                self._batches.appendleft((taken_at, count - 1))

    def keep(self, most: int) -> None:
        """Forget those beyond so many, the oldest first."""
        while self.count > most:
            self.use()

    def drop_stale(self) -> int:
        """Forget those that were kept for too long: how many must go back."""
        now, before = time.monotonic(), self.count
        while self._batches and now > self.stale_at:
            self.count -= self._batches.popleft()[1]
        return before - self.count
