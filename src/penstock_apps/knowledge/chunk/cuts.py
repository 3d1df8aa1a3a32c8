"""Where a row of units is cut: by what stands there, not by how much came before.

A cut is made where none within reach, on either side, would be stronger. So an edit moves the cuts
within reach of it and no others, and inserting a paragraph shifts nothing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final

from penstock_apps.knowledge.chunk.units import Unit

# So many times the size of a piece is more than there is between cuts, in any usual text.
LONG: Final = 8


def cuts(units: Sequence[Unit], size: int, reach: int) -> list[int]:
    """Before which units to cut; each piece between has at most `size` tokens."""
    places = [0, *accumulate(unit.tokens for unit in units)]
    if places[-1] <= size:
        return []
    best = [place for place in range(1, len(units)) if _is_best(place, units, places, reach)]
    found: list[int] = []
    for start, end in pairwise([0, *best, len(units)]):
        found += _within(start, end, units, places, size, reach // 2)
        if end < len(units):
            found.append(end)
    return found


def _is_best(at: int, units: Sequence[Unit], places: Sequence[int], reach: int) -> bool:
    """Whether no cut within reach is stronger, or as strong and before it."""
    here, strength = places[at], units[at].strength
    if here < reach or places[-1] - here < reach:
        return False
    other = at - 1
    while here - places[other] < reach:
        if units[other].strength >= strength:
            return False
        other -= 1
    other = at + 1
    while places[other] - here < reach:
        if units[other].strength > strength:
            return False
        other += 1
    return True


def _within(
    start: int, end: int, units: Sequence[Unit], places: Sequence[int], size: int, margin: int
) -> list[int]:
    """The cuts that a stretch still needs: the strongest first, then those of its two parts."""
    found: list[int] = []
    open_ = [(start, end)]
    while open_:
        start, end = open_.pop()
        length = places[end] - places[start]
        if length <= size or end - start < 2:
            continue
        # Of a long stretch the middle, or nothing but weak cuts would be found one by one.
        away = margin if length <= LONG * size else length // 4
        low = bisect_left(places, places[start] + away, start + 1, end)
        high = bisect_right(places, places[end] - away, start + 1, end)
        middle = (start + end) // 2
        at = max(
            range(low, high) or range(start + 1, end),
            key=lambda place: (units[place].strength, -abs(place - middle)),
        )
        found.append(at)
        open_ += (start, at), (at, end)
    return sorted(found)
