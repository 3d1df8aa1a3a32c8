"""Measure what every run of the bench measures: drains in rounds, single enqueues and pick-ups."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import quantiles
from typing import Any

from penstock.bench.child import children
from penstock.bench.drain import CEILING, Drain, drain, typical
from penstock.bench.ground import Ground
from penstock.bench.measured import Orders
from penstock.bench.report import Live


@dataclass
class Rounds:
    """What each round gave; interleaved, so that a noisy moment hits all of them alike."""

    ground: Ground
    live: Live
    jobs: int
    ceiling: list[Drain] = field(default_factory=list)
    overlapped: list[Drain] = field(default_factory=list)
    free: list[Drain] = field(default_factory=list)
    held: list[Drain] = field(default_factory=list)
    bulk: list[float] = field(default_factory=list)

    async def one(self) -> None:
        await self._measure("ceiling", self.ceiling, command=CEILING)
        await self._measure("drain", self.free)
        await self._measure(
            "ceiling, overlapped", self.overlapped, command=CEILING, overlapped=True
        )
        await self._refill()
        async with self.ground.held_snapshot():
            await self._drain("drain under a held snapshot", self.held)

    async def _measure(self, what: str, into: list[Drain], **how: Any) -> None:
        await self._refill()
        await self._drain(what, into, **how)

    async def _refill(self) -> None:
        with self.live.doing(f"enqueue {self.jobs:,} jobs"):
            seconds = await self.ground.refill(self.jobs)
        self.bulk.append(self.jobs / seconds)

    async def _drain(self, what: str, into: list[Drain], **how: Any) -> None:
        with self.live.doing(what):
            one = await drain(
                self.ground, self.jobs, lambda done, _: self.live.progress(done, self.jobs), **how
            )
        into.append(one)
        self.live.result(what, f"{one.rate:>10,.0f} jobs/s")

    # What they came to

    @property
    def free_rate(self) -> float:
        return rate(self.free)

    def as_dict(self) -> dict[str, Any]:
        ceiling, free, held = rate(self.ceiling), self.free_rate, rate(self.held)
        return {
            "drain": {
                "jobs_per_s": round(free, 1),
                "ceiling_jobs_per_s": round(ceiling, 1),
                "ratio": round(free / ceiling, 3),
                "last_over_first": round(typical([one.last_over_first for one in self.free]), 3),
                "tenths": tenths(self.free),
                "rounds": [round(one.rate, 1) for one in self.free],
                "ceiling_rounds": [round(one.rate, 1) for one in self.ceiling],
            },
            "ceiling_overlapped": {
                "jobs_per_s": round(rate(self.overlapped), 1),
                "rounds": [round(one.rate, 1) for one in self.overlapped],
            },
            "held": {
                "jobs_per_s": round(held, 1),
                "last_over_first": round(typical([one.last_over_first for one in self.held]), 3),
                "over_free": round(held / free, 3),
                "tenths": tenths(self.held),
                "rounds": [round(one.rate, 1) for one in self.held],
            },
            **self._used(),
        }

    def _used(self) -> dict[str, Any]:
        server = [one.server_cpu_ms_per_1000 for one in self.free]
        known = [spent for spent in server if spent is not None]
        peaks = [one.peak_rss_mb for one in self.free if one.peak_rss_mb is not None]
        return {
            "cpu_ms_per_1000_jobs": round(typical([one.cpu_ms_per_1000 for one in self.free]), 2),
            "postgres_cpu_ms_per_1000_jobs": round(typical(known), 2) if known else None,
            "max_rss_mb": round(max(peaks), 1) if peaks else None,
        }


def rate(drains: Sequence[Drain]) -> float:
    return typical([one.rate for one in drains])


def tenths(drains: Sequence[Drain]) -> list[float]:
    """Jobs a second in each tenth of the drain, the median of the rounds."""
    columns = zip(*(one.timeline.tenths() for one in drains), strict=True)
    return [round(typical(column), 1) for column in columns]


async def single_rate(ground: Ground, jobs: int, tenants: Sequence[str] = ()) -> float:
    """Jobs a second; each is durable before the next is sent."""
    owners = tenants or ("",)
    await ground.clear()
    await ground.enqueue(0)
    began = time.monotonic()
    for number in range(jobs):
        await ground.enqueue(number, owners[number % len(owners)])
    return jobs / (time.monotonic() - began)


A_SECOND = 50
WARM_UP = 25
PICK_UP_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds, in hundredths of the jobs."""

    p50: float
    p95: float
    p99: float

    @classmethod
    def of(cls, seconds: list[float]) -> Latency:
        cuts = [round(cut * 1000, 2) for cut in quantiles(seconds, n=100, method="inclusive")]
        return cls(cuts[49], cuts[94], cuts[98])


async def pick_up(ground: Ground, jobs: int, live: Live) -> Latency:
    """Enqueue single jobs at a gentle pace; the first, which open connections, do not count."""
    await ground.clear()
    orders = Orders(ground.url, ground.schema)
    async with children(ground.worker, orders) as [child]:
        await child.go()
        asked: dict[int, float] = {}
        for number in range(WARM_UP + jobs):
            asked[number] = time.monotonic()
            await ground.enqueue_stamp(number)
            live.progress(number, WARM_UP + jobs)
            await asyncio.sleep(max(0.0, asked[number] + 1 / A_SECOND - time.monotonic()))
        await child.settled(len(asked), within=PICK_UP_SECONDS)
        stamps = (await child.stop()).stamps
    return Latency.of([stamps[number] - asked[number] for number in range(WARM_UP, len(asked))])
