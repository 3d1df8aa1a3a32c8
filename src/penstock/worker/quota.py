"""How many jobs a worker may still take: as many as there are, or a number for a drain."""

from __future__ import annotations


class Quota:
    """A number of claims that all queues share. Closed, it grants nothing more."""

    def __init__(self, limit: int | None = None) -> None:
        self._left = limit
        self.claimed = 0
        self.closed = False

    def grant(self, wanted: int) -> int:
        if self.closed:
            return 0
        return wanted if self._left is None else min(wanted, self._left)

    def spend(self, claimed: int) -> None:
        self.claimed += claimed
        if self._left is not None:
            self._left -= claimed

    @property
    def is_spent(self) -> bool:
        return self.closed or self._left == 0
