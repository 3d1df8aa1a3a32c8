"""Drain a full queue with measured processes, and count the settled jobs over time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from penstock.bench.child import BenchFailed, Child, module_command, start_children
from penstock.bench.measured import Finished, Orders
from penstock.bench.sandbox import Sandbox

Sample = tuple[float, int]

# The database's clock times the claims, and this machine's times the settles. Differences shorter
# than this mean nothing.
CLOCK_ACCURACY_S = 0.001


@dataclass(frozen=True, slots=True)
class Timeline:
    """The number of settled jobs over time, starting with the first claim."""

    began: float
    points: tuple[Sample, ...]

    @classmethod
    def of(cls, began: float, processes: Iterable[Sequence[Sample]]) -> Timeline:
        """Combine the samples of several processes into one timeline."""
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
        return max(self.time_at(self.settled) - self.began, CLOCK_ACCURACY_S)

    @property
    def rate(self) -> float:
        """Jobs per second from the first claim to the last settle."""
        return self.settled / self.seconds

    def tenths(self) -> list[float]:
        """Return the rate in jobs per second for each tenth of the jobs."""
        tenth = self.settled / 10
        ends = [self.time_at(tenth * number) for number in range(11)]
        return [tenth / max(end - start, CLOCK_ACCURACY_S) for start, end in pairwise(ends)]

    def time_at(self, settled: float) -> float:
        """Return when this many jobs were settled, interpolated linearly between samples."""
        before = self.points[0]
        for point in self.points:
            if point[1] >= settled:
                share = (settled - before[1]) / max(point[1] - before[1], 1)
                return before[0] + share * (point[0] - before[0])
            before = point
        return before[0]


CEILING = module_command("penstock.bench.ceiling")
STANDSTILL_TIMEOUT_S = 60.0

OnProgress = Callable[[int, Sequence[int]], None]


@dataclass(frozen=True, slots=True)
class Drain:
    """The result of one drain: settled jobs over time, and what each process used."""

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
        return self._per_1000(sum(process.cpu_seconds for process in self.processes))

    @property
    def server_cpu_ms_per_1000(self) -> float | None:
        return self._per_1000_if_known([process.server_cpu_seconds for process in self.processes])

    @property
    def children_cpu_ms_per_1000(self) -> float | None:
        return self._per_1000_if_known([process.children_cpu_seconds for process in self.processes])

    @property
    def peak_rss_mb(self) -> float | None:
        peaks = [process.peak_rss for process in self.processes if process.peak_rss is not None]
        return max(peaks) / 2**20 if peaks else None

    def _per_1000_if_known(self, seconds: Sequence[float | None]) -> float | None:
        known = [value for value in seconds if value is not None]
        return self._per_1000(sum(known)) if len(known) == len(seconds) else None

    def _per_1000(self, seconds: float) -> float:
        """Convert seconds for all jobs of the drain to milliseconds per 1,000 jobs."""
        return seconds * 1000 / (self.timeline.settled / 1000)


async def drain(
    sandbox: Sandbox,
    jobs: int,
    on_progress: OnProgress,
    *,
    command: Sequence[str] | None = None,
    processes: int = 1,
    overlapped: bool = False,
) -> Drain:
    """Let measured processes run all jobs of the queue.

    The measurement goes from the first claim to the last settle. Raises `BenchFailed` if no job
    was settled for a minute, or if jobs are left.
    """
    orders = Orders(sandbox.url, sandbox.schema, overlapped)
    async with start_children(command or sandbox.worker, orders, processes) as started:
        for child in started:
            await child.go()
        await wait_until_all_settled(started, jobs, on_progress)
        finished = [await child.stop() for child in started]
    if left := await sandbox.count_live_jobs():
        raise BenchFailed(f"The drain has ended, but {left} of {jobs} jobs are still live.")
    began = await sandbox.first_claim_time()
    timeline = Timeline.of(began, [process.samples for process in finished])
    return Drain(timeline, tuple(finished))


async def wait_until_all_settled(
    started: Sequence[Child], jobs: int, on_progress: OnProgress
) -> None:
    """Wait until the processes have settled this many jobs together."""
    # Progress of any process sets this one event.
    changed = asyncio.Event()
    for child in started:
        child.changed = changed
    while (settled := sum(child.progress.settled for child in started)) < jobs:
        try:
            async with asyncio.timeout(STANDSTILL_TIMEOUT_S):
                await _wait_for_progress(started, settled, changed)
        except TimeoutError:
            raise BenchFailed(
                f"The drain has stopped making progress: only {settled} of {jobs} jobs were "
                "settled."
            ) from None
        on_progress(
            sum(child.progress.settled for child in started),
            [child.progress.rss or 0 for child in started],
        )


async def _wait_for_progress(
    started: Sequence[Child], settled: int, changed: asyncio.Event
) -> None:
    while sum(child.progress.settled for child in started) == settled:
        if any(child.has_ended for child in started):
            raise BenchFailed("A benchmark process ended too early. Its own output above says why.")
        changed.clear()
        await changed.wait()


def median_of(values: Sequence[float]) -> float:
    """Return the median, so that one disturbed round does not count."""
    return float(median(values))
