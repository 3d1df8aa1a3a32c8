"""Round robin: in each round, every lane has one turn."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from itertools import chain


class RoundRobin:
    """Decides which lane is next.

    A new lane comes after the lanes that still wait in this round, and before the lanes that have
    had their turn.
    """

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, None] = OrderedDict()
        self._served: OrderedDict[str, None] = OrderedDict()
        self._interrupted: tuple[str, int] | None = None

    def __len__(self) -> int:
        return len(self._waiting) + len(self._served)

    def __iter__(self) -> Iterator[str]:
        return chain(self._waiting, self._served)

    def __contains__(self, name: str) -> bool:
        return name in self._waiting or name in self._served

    @property
    def waiting(self) -> int:
        """How many lanes have not had their turn in this round."""
        return len(self._waiting)

    def add(self, name: str) -> None:
        if name not in self:
            self._waiting[name] = None

    def remove(self, name: str) -> None:
        self._waiting.pop(name, None)
        self._served.pop(name, None)

    def next(self) -> str:
        """Return the lane that is next, and count this as its turn."""
        if not self._waiting:
            self._waiting, self._served = self._served, self._waiting
        name, _ = self._waiting.popitem(last=False)
        self._served[name] = None
        return name

    def interrupt(self, name: str, left: int) -> None:
        """Cut a lane's turn short, and remember how much of it is left."""
        self._interrupted = name, left

    def resume(self, name: str) -> int:
        """Return how much is left of a lane's interrupted turn, or 0 if a new turn starts."""
        interrupted, self._interrupted = self._interrupted, None
        return interrupted[1] if interrupted is not None and interrupted[0] == name else 0

    def move_to_front(self, name: str) -> None:
        """Let a lane be next again, because its turn found no jobs."""
        if name in self:
            self.remove(name)
            self._waiting[name] = None
            self._waiting.move_to_end(name, last=False)
