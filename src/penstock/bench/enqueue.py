"""How fast one client enqueues, one awaited call after the other."""

from __future__ import annotations

import time

from penstock.bench.ground import Ground


async def single_rate(ground: Ground, jobs: int) -> float:
    """Jobs a second; each is durable before the next is sent."""
    await ground.clear()
    await ground.enqueue(0)
    began = time.monotonic()
    for number in range(jobs):
        await ground.enqueue(number)
    return jobs / (time.monotonic() - began)
