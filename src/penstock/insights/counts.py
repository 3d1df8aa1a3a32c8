"""Count rows up to a bound, and describe the depth of a queue for gauges."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from penstock.job import State


class Count(Struct, frozen=True):
    """A count. If `is_exact` is False, the real number may be higher."""

    number: int
    is_exact: bool = True

    @classmethod
    def of(cls, number: int, bound: int) -> Count:
        """Make a count from a number that is exact only up to `bound`."""
        return cls(min(number, bound), number <= bound)

    @classmethod
    def sum(cls, counts: Iterable[Count]) -> Count:
        parts = tuple(counts)
        return cls(sum(each.number for each in parts), all(each.is_exact for each in parts))

    def __str__(self) -> str:
        return f"{self.number:,}" if self.is_exact else f"{self.number:,}+"


class Depth(Struct, frozen=True, kw_only=True):
    """The number of jobs of a queue in one state."""

    queue: str
    state: State
    jobs: int
    waited: float | None
    """For how many seconds the oldest of them has been ready."""
