"""Drains a full queue with measured processes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from penstock.bench.child import Child, children, module
from penstock.bench.errors import BenchFailed
from penstock.bench.ground import Ground
from penstock.bench.messages import Finished, Orders
from penstock.bench.timeline import Timeline

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
