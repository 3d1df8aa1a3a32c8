"""How fast one client enqueues, one awaited call after the other."""

from __future__ import annotations

import time
from collections.abc import Sequence

from penstock.bench.ground import Ground


async def single_rate(ground: Ground, jobs: int, tenants: Sequence[str] = ()) -> float:
    """Jobs a second; each is durable before the next is sent."""
    owners = tenants or ("",)
    await ground.clear()
    await ground.enqueue(0)
    began = time.monotonic()
    for number in range(jobs):
        await ground.enqueue(number, owners[number % len(owners)])
    return jobs / (time.monotonic() - began)
