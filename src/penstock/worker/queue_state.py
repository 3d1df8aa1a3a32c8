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
        # The last job fetched had lost its worker before. Such jobs run alone, so more than one
        # would only be given back.
        self.is_wary = False

    @property
    def wanted(self) -> int:
        """How many jobs a claim should ask for now; 0 while there is enough at hand."""
        if self.is_wary:
            return 0 if self.fetched else min(max(self.slots.free, 0), 1)
        ahead = self.slots.ahead
        if len(self.fetched) > ahead // 2:
            return 0
        return max(self.slots.free, 0) + ahead - len(self.fetched)
