"""Which tenants a worker serves."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tenants:
    """All of them, only some, or all but some. On fair queues, whose lanes are tenants."""

    only: frozenset[str] | None = None
    excepted: frozenset[str] = frozenset()

    def serves(self, turn: str) -> bool:
        return (self.only is None or turn in self.only) and turn not in self.excepted

    @property
    def is_all(self) -> bool:
        return self.only is None and not self.excepted


ALL = Tenants()
