"""One queue in a worker: its slots, its marks, the jobs fetched ahead."""

from __future__ import annotations

from collections import deque

from penstock.store import Attempt
from penstock.worker.marks import Marks
from penstock.worker.slots import Slots


class QueueState:
    """What a worker knows of one queue."""

    def __init__(self, name: str, slots: int, ahead_most: int) -> None:
        self.name = name
        self.slots = Slots(slots, ahead_most)
        self.marks = Marks()
        self.fetched: deque[Attempt] = deque()

    @property
    def wanted(self) -> int:
        """How many jobs a claim should ask for now; 0 while there is enough at hand."""
        ahead = self.slots.ahead
        if len(self.fetched) > ahead // 2:
            return 0
        return max(self.slots.free, 0) + ahead - len(self.fetched)
