"""How long a job waits for an idle worker: from the call of enqueue to the start of its handler."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from statistics import quantiles

from penstock.bench.child import children
from penstock.bench.ground import Ground
from penstock.bench.live import Live
from penstock.bench.messages import Orders

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
