"""How fast one client enqueues, one awaited call after the other."""

from __future__ import annotations

import time

from penstock.bench.place import Place


async def single_rate(place: Place, jobs: int) -> float:
    """Jobs a second; each is durable before the next is sent."""
    await place.clear()
    await place.enqueue(0)
    began = time.monotonic()
    for number in range(jobs):
        await place.enqueue(number)
    return jobs / (time.monotonic() - began)
