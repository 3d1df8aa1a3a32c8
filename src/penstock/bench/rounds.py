"""What every run of the bench measures: drains in rounds, single enqueues, and pick-up times."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import quantiles
from typing import Any

from penstock.bench.child import start_children
from penstock.bench.drain import CEILING, Drain, drain, median_of
from penstock.bench.measured import Orders
from penstock.bench.report import LiveLine
from penstock.bench.sandbox import Sandbox


@dataclass
class Rounds:
    """Drain the queue by bare loops, by a worker, and by a worker under a held snapshot.

    A round runs all these drains in turn, so a noisy moment affects all of them.
    """

    sandbox: Sandbox
    live: LiveLine
    jobs: int
    ceiling: list[Drain] = field(default_factory=list)
    overlapped: list[Drain] = field(default_factory=list)
    free: list[Drain] = field(default_factory=list)
    held: list[Drain] = field(default_factory=list)
    bulk: list[float] = field(default_factory=list)

    async def run_round(self) -> None:
        await self._refill_and_drain("ceiling", self.ceiling, command=CEILING)
        await self._refill_and_drain("drain", self.free)
        await self._refill_and_drain(
            "ceiling, overlapped", self.overlapped, command=CEILING, overlapped=True
        )
        await self._refill()
        async with self.sandbox.held_snapshot():
            await self._drain("drain under a held snapshot", self.held)

    async def _refill_and_drain(self, label: str, drains: list[Drain], **options: Any) -> None:
        await self._refill()
        await self._drain(label, drains, **options)

    async def _refill(self) -> None:
        with self.live.doing(f"enqueue {self.jobs:,} jobs"):
            seconds = await self.sandbox.refill(self.jobs)
        self.bulk.append(self.jobs / seconds)

    async def _drain(self, label: str, drains: list[Drain], **options: Any) -> None:
        with self.live.doing(label):
            result = await drain(
                self.sandbox,
                self.jobs,
                lambda done, _: self.live.progress(done, self.jobs),
                **options,
            )
        drains.append(result)
        self.live.result(label, f"{result.rate:>10,.0f} jobs/s")

    # Results

    @property
    def free_rate(self) -> float:
        return median_rate(self.free)

    def as_dict(self) -> dict[str, Any]:
        ceiling, free, held = median_rate(self.ceiling), self.free_rate, median_rate(self.held)
        return {
            "drain": {
                "jobs_per_s": round(free, 1),
                "ceiling_jobs_per_s": round(ceiling, 1),
                "ratio": round(free / ceiling, 3),
                "last_over_first": round(
                    median_of([drain.last_over_first for drain in self.free]), 3
                ),
                "tenths": median_tenths(self.free),
                "rounds": [round(drain.rate, 1) for drain in self.free],
                "ceiling_rounds": [round(drain.rate, 1) for drain in self.ceiling],
            },
            "ceiling_overlapped": {
                "jobs_per_s": round(median_rate(self.overlapped), 1),
                "rounds": [round(drain.rate, 1) for drain in self.overlapped],
            },
            "held": {
                "jobs_per_s": round(held, 1),
                "last_over_first": round(
                    median_of([drain.last_over_first for drain in self.held]), 3
                ),
                "over_free": round(held / free, 3),
                "tenths": median_tenths(self.held),
                "rounds": [round(drain.rate, 1) for drain in self.held],
            },
            **self._describe_usage(),
        }

    def _describe_usage(self) -> dict[str, Any]:
        server = [drain.server_cpu_ms_per_1000 for drain in self.free]
        known = [spent for spent in server if spent is not None]
        peaks = [drain.peak_rss_mb for drain in self.free if drain.peak_rss_mb is not None]
        return {
            "cpu_ms_per_1000_jobs": round(
                median_of([drain.cpu_ms_per_1000 for drain in self.free]), 2
            ),
            "postgres_cpu_ms_per_1000_jobs": round(median_of(known), 2) if known else None,
            "max_rss_mb": round(max(peaks), 1) if peaks else None,
        }


def median_rate(drains: Sequence[Drain]) -> float:
    return median_of([drain.rate for drain in drains])


def median_tenths(drains: Sequence[Drain]) -> list[float]:
    """Return the jobs per second in each tenth of the jobs, as medians over the rounds."""
    columns = zip(*(drain.timeline.tenths() for drain in drains), strict=True)
    return [round(median_of(column), 1) for column in columns]


async def measure_single_enqueues(
    sandbox: Sandbox, jobs: int, tenants: Sequence[str] = ()
) -> float:
    """Return the jobs per second of one client that awaits each enqueue before the next."""
    owners = tenants or ("",)
    await sandbox.clear()
    await sandbox.enqueue(0)
    began = time.monotonic()
    for number in range(jobs):
        await sandbox.enqueue(number, owners[number % len(owners)])
    return jobs / (time.monotonic() - began)


JOBS_PER_SECOND = 50
WARM_UP_JOBS = 25
PICK_UP_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Latency:
    """Percentiles of a latency, in milliseconds."""

    p50: float
    p95: float
    p99: float

    @classmethod
    def of(cls, seconds: list[float]) -> Latency:
        cuts = [round(cut * 1000, 2) for cut in quantiles(seconds, n=100, method="inclusive")]
        return cls(cuts[49], cuts[94], cuts[98])


async def measure_pick_up(sandbox: Sandbox, jobs: int, live: LiveLine) -> Latency:
    """Measure how long a job waits for an idle worker, from its enqueue to its handler's start.

    Jobs are enqueued one by one at a low rate. The first jobs open connections and do not count.
    """
    await sandbox.clear()
    orders = Orders(sandbox.url, sandbox.schema)
    async with start_children(sandbox.worker, orders) as [child]:
        await child.go()
        sent: dict[int, float] = {}
        for number in range(WARM_UP_JOBS + jobs):
            sent[number] = time.monotonic()
            await sandbox.enqueue_stamp(number)
            live.progress(number, WARM_UP_JOBS + jobs)
            await asyncio.sleep(max(0.0, sent[number] + 1 / JOBS_PER_SECOND - time.monotonic()))
        await child.wait_until_settled(len(sent), within=PICK_UP_TIMEOUT_S)
        began = (await child.stop()).stamps
    return Latency.of([began[number] - sent[number] for number in range(WARM_UP_JOBS, len(sent))])
