"""Taking turns: everyone once a round."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from itertools import chain


class RoundRobin:
    """Who is next. One who joins waits behind those who still wait in this round, and comes
    before all who have had their turn in it."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, None] = OrderedDict()
        self._served: OrderedDict[str, None] = OrderedDict()
        self._rest: tuple[str, int] | None = None

    def __len__(self) -> int:
        return len(self._waiting) + len(self._served)

    def __iter__(self) -> Iterator[str]:
        return chain(self._waiting, self._served)

    def __contains__(self, name: str) -> bool:
        return name in self._waiting or name in self._served

    @property
    def waiting(self) -> int:
        """How many have not had their turn in this round."""
        return len(self._waiting)

    def join(self, name: str) -> None:
        if name not in self:
            self._waiting[name] = None

    def leave(self, name: str) -> None:
        self._waiting.pop(name, None)
        self._served.pop(name, None)

    def next(self) -> str:
        """Whose turn it is; it has had it then."""
        if not self._waiting:
            self._waiting, self._served = self._served, self._waiting
        name, _ = self._waiting.popitem(last=False)
        self._served[name] = None
        return name

    def leave_off(self, name: str, rest: int) -> None:
        """Its turn is cut short; so much of it is left for when it is next."""
        self._rest = name, rest

    def rest(self, name: str) -> int:
        """What is left of a turn that was cut short; 0 if it begins anew."""
        rest, self._rest = self._rest, None
        return rest[1] if rest is not None and rest[0] == name else 0

    def again(self, name: str) -> None:
        """Its turn came to nothing: it is next once more."""
        if name in self:
            self.leave(name)
            self._waiting[name] = None
            self._waiting.move_to_end(name, last=False)
