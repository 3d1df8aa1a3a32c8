"""How many jobs were settled when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

Sample = tuple[float, int]

# Claims have the database's time, settles ours: seconds that are too short to be told apart.
ACCURACY = 0.001


@dataclass(frozen=True, slots=True)
class Timeline:
    """Settled jobs over time, from the start of the first claim on."""

    began: float
    points: tuple[Sample, ...]

    @classmethod
    def of(cls, began: float, processes: Iterable[Sequence[Sample]]) -> Timeline:
        """The counts of several processes as one."""
        steps = sorted(
            (after[0], after[1] - before[1])
            for samples in processes
            for before, after in pairwise([(began, 0), *samples])
        )
        points, settled = [(began, 0)], 0
        for at, more in steps:
            settled += more
            points.append((at, settled))
        return cls(began, tuple(points))

    @property
    def settled(self) -> int:
        return self.points[-1][1]

    @property
    def seconds(self) -> float:
        return max(self.when(self.settled) - self.began, ACCURACY)

    @property
    def rate(self) -> float:
        """Jobs a second over the whole."""
        return self.settled / self.seconds

    def tenths(self) -> list[float]:
        """Jobs a second in each tenth of the jobs."""
        tenth = self.settled / 10
        ends = [self.when(tenth * number) for number in range(11)]
        return [tenth / max(end - start, ACCURACY) for start, end in pairwise(ends)]

    def when(self, settled: float) -> float:
        """The time when so many jobs were settled, a straight line drawn between samples."""
        before = self.points[0]
        for point in self.points:
            if point[1] >= settled:
                share = (settled - before[1]) / max(point[1] - before[1], 1)
                return before[0] + share * (point[0] - before[0])
            before = point
        return before[0]
