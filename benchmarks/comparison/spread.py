"""Several rounds of one measurement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True)
class Spread:
    """The median, and the least and the most that were seen."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(float(median(values)), float(min(values)), float(max(values)))

    def as_dict(self) -> dict[str, Any]:
        return {name: round(value, 3) for name, value in asdict(self).items()}
