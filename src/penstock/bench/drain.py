"""Drain a full queue with measured processes, and count the settled jobs over time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from penstock.bench.child import BenchFailed, Child, children, module
from penstock.bench.ground import Ground
from penstock.bench.measured import Finished, Orders

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


CEILING = module("penstock.bench.ceiling")
STANDSTILL_SECONDS = 60.0

OnProgress = Callable[[int, Sequence[int]], None]


@dataclass(frozen=True, slots=True)
class Drain:
    """One drain: when how many jobs were settled, and what that took."""

    timeline: Timeline
    processes: tuple[Finished, ...]

    @property
    def rate(self) -> float:
        return self.timeline.rate

    @property
    def last_over_first(self) -> float:
        tenths = self.timeline.tenths()
        return tenths[-1] / tenths[0]

    @property
    def cpu_ms_per_1000(self) -> float:
        return self._per_1000(sum(one.cpu_seconds for one in self.processes))

    @property
    def server_cpu_ms_per_1000(self) -> float | None:
        spent = [one.server_cpu_seconds for one in self.processes]
        known = [seconds for seconds in spent if seconds is not None]
        return self._per_1000(sum(known)) if len(known) == len(spent) else None

    @property
    def children_cpu_ms_per_1000(self) -> float | None:
        spent = [one.children_cpu_seconds for one in self.processes]
        known = [seconds for seconds in spent if seconds is not None]
        return self._per_1000(sum(known)) if len(known) == len(spent) else None

    @property
    def peak_rss_mb(self) -> float | None:
        peaks = [one.peak_rss for one in self.processes if one.peak_rss is not None]
        return max(peaks) / 2**20 if peaks else None

    def _per_1000(self, seconds: float) -> float:
        return seconds * 1000 / (self.timeline.settled / 1000)


async def drain(
    ground: Ground,
    jobs: int,
    on_progress: OnProgress,
    *,
    command: Sequence[str] | None = None,
    processes: int = 1,
    overlapped: bool = False,
) -> Drain:
    """Let processes work off all that is there; from the first claim to the last settle."""
    orders = Orders(ground.url, ground.schema, overlapped)
    async with children(command or ground.worker, orders, processes) as started:
        for child in started:
            await child.go()
        await all_settled(started, jobs, on_progress)
        finished = [await child.stop() for child in started]
    if left := await ground.left():
        raise BenchFailed(f"The drain has ended, but {left} of {jobs} jobs are still live.")
    timeline = Timeline.of(await ground.first_claim(), [one.samples for one in finished])
    return Drain(timeline, tuple(finished))


async def all_settled(started: Sequence[Child], jobs: int, on_progress: OnProgress) -> None:
    """Wait until the processes have settled all jobs among them."""
    # One bell for all of them.
    changed = asyncio.Event()
    for child in started:
        child.changed = changed
    while (settled := sum(child.progress.settled for child in started)) < jobs:
        try:
            async with asyncio.timeout(STANDSTILL_SECONDS):
                await _moved(started, settled, changed)
        except TimeoutError:
            raise BenchFailed(f"The drain stands still at {settled} of {jobs} jobs.") from None
        on_progress(
            sum(child.progress.settled for child in started),
            [child.progress.rss or 0 for child in started],
        )


async def _moved(started: Sequence[Child], settled: int, changed: asyncio.Event) -> None:
    while sum(child.progress.settled for child in started) == settled:
        if any(child.has_ended for child in started):
            raise BenchFailed("A measured process ended too soon; its own words are above.")
        changed.clear()
        await changed.wait()


def typical(values: Sequence[float]) -> float:
    """The median: one disturbed round does not count."""
    return float(median(values))
