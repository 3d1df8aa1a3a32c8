"""What `submit` of a local pool costs: `python -m benchmarks.local_pool`."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

from penstock import LocalPool

ROUNDS = 50
# As many as can wait: none is dropped.
CALLS = 1024


def in_thread() -> None:
    """A call that has a thread."""


async def on_loop() -> None:
    """A call on the event loop."""


def microseconds(pool: LocalPool, fn: Callable[[], Any]) -> float:
    began = time.perf_counter()
    for _ in range(CALLS):
        pool.submit(fn)
    return (time.perf_counter() - began) / CALLS * 1e6


async def median(pool: LocalPool, fn: Callable[[], Any], *, aside: bool = False) -> float:
    """Of some rounds, from the loop or from another thread; each begins with an idle pool."""
    took = []
    for _ in range(ROUNDS):
        if aside:
            took.append(await asyncio.to_thread(microseconds, pool, fn))
        else:
            took.append(microseconds(pool, fn))
        await pool.idle()
    return sorted(took)[ROUNDS // 2]


async def when_full() -> float:
    """What a drop costs."""
    release = threading.Event()
    async with LocalPool(slots=0) as pool:
        for _ in range(pool.workers):
            pool.submit(release.wait)
        took = sorted(microseconds(pool, in_thread) for _ in range(ROUNDS))
        release.set()
    return took[ROUNDS // 2]


async def main() -> None:
    print("µs for a submit, median")
    async with LocalPool() as pool:
        print(f"  async def, from the loop   {await median(pool, on_loop):.1f}")
        print(f"  async def, from a thread   {await median(pool, on_loop, aside=True):.1f}")
        print(f"  def, from the loop         {await median(pool, in_thread):.1f}")
        print(f"  def, from a thread         {await median(pool, in_thread, aside=True):.1f}")
        assert pool.counts.dropped == 0
    print(f"  dropped                    {await when_full():.1f}")


if __name__ == "__main__":
    asyncio.run(main())
