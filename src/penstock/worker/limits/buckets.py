"""The tokens that a worker has taken from a bucket and not used yet."""

from __future__ import annotations

import math
import time
from collections import deque

# A token that is kept for longer would let more jobs start at once than the burst allows.
MAX_TOKEN_AGE_S = 0.1


class Bucket:
    """Uses the oldest tokens first. Tokens that are not used in time must go back."""

    __slots__ = ("_batches", "count")

    def __init__(self) -> None:
        self.count = 0
        self._batches: deque[tuple[float, int]] = deque()

    def put(self, count: int, taken_at: float) -> None:
        self._batches.append((taken_at, count))
        self.count += count

    @property
    def stale_at(self) -> float:
        """When the oldest tokens become too old to be used."""
        return self._batches[0][0] + MAX_TOKEN_AGE_S if self._batches else math.inf

    @property
    def may_use(self) -> bool:
        return self.count > 0 and time.monotonic() <= self.stale_at

    def use(self) -> None:
        """Use a token.

        If there is none, the count goes below 0, and the next token pays for this.
        """
        self.count -= 1
        if self._batches:
            taken_at, count = self._batches.popleft()
            if count > 1:
                self._batches.appendleft((taken_at, count - 1))

    def limit_to(self, max_tokens: int) -> None:
        """Drop tokens beyond this number, the oldest first."""
        while self.count > max_tokens:
            self.use()

    def drop_stale(self) -> int:
        """Drop tokens that are too old, and return how many must go back."""
        now, before = time.monotonic(), self.count
        while self._batches and now > self.stale_at:
            self.count -= self._batches.popleft()[1]
        return before - self.count
