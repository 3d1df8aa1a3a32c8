"""Numbers of rows that were counted up to a bound, and the depth of queues as a gauge shows it."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from penstock.job import State


class Count(Struct, frozen=True):
    """So many, or at least so many."""

    number: int
    is_exact: bool = True

    @classmethod
    def of(cls, found: int, most: int) -> Count:
        """What a look that stops behind `most` has found."""
        return cls(min(found, most), found <= most)

    @classmethod
    def sum(cls, counts: Iterable[Count]) -> Count:
        given = tuple(counts)
        return cls(sum(each.number for each in given), all(each.is_exact for each in given))

    def __str__(self) -> str:
        return f"{self.number:,}" if self.is_exact else f"{self.number:,}+"


class Depth(Struct, frozen=True, kw_only=True):
    """The jobs of a queue in one state."""

    queue: str
    state: State
    jobs: int
    waited: float | None
    """For how many seconds the oldest has been ready."""
