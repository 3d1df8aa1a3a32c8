"""One commit against another, round by round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from statistics import median
from typing import Any

RESAMPLES = 2_000
SEED = 8
# Of the medians of all resamples, so many lie within the interval.
WITHIN = 0.95


@dataclass(frozen=True, slots=True)
class Ratio:
    """The median of the rounds, and the interval in which another run would have it."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, before: Sequence[float], now: Sequence[float]) -> Ratio:
        ratios = [new / old for old, new in zip(before, now, strict=True)]
        low, high = interval(ratios, Random(SEED))
        return cls(round(median(ratios), 3), round(low, 3), round(high, 3))

    @property
    def inverse(self) -> Ratio:
        """Of the other over the one."""
        return Ratio(1 / self.median, 1 / self.high, 1 / self.low)

    def as_dict(self) -> dict[str, Any]:
        return {"median": self.median, "low": self.low, "high": self.high}


def interval(values: Sequence[float], random: Random) -> tuple[float, float]:
    """The bootstrap: medians of rounds drawn anew, from those that there were."""
    drawn = sorted(median(random.choices(values, k=len(values))) for _ in range(RESAMPLES))
    cut = round(RESAMPLES * (1 - WITHIN) / 2)
    return drawn[cut], drawn[-1 - cut]
