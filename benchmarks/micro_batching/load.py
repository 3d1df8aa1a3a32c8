"""Items arrive, all at once or at a rate; how many calls were made, and how long did they wait?"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from math import ceil
from statistics import quantiles
from typing import Any

from benchmarks.comparison.environment import ROOT
from benchmarks.micro_batching.worker import BATCH, alone, shared
from penstock.bench.child import BenchFailed, module_command, start_children
from penstock.bench.drain import wait_until_all_settled
from penstock.bench.measured import Orders
from penstock.bench.report import LiveLine
from penstock.bench.sandbox import Sandbox

WORKER = module_command("benchmarks.micro_batching.worker")
EVERY = 0.002
AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Load:
    """So many items: there from the start, or so many a second."""

    name: str
    items: int
    rate: float | None = None
    is_shared: bool = True


def loads(items: int) -> list[Load]:
    """What is measured: a backlog, and two rates, each against a call for each item."""
    return [
        Load("backlog", items),
        Load("slow", items // 5, 200.0),
        Load("slow_alone", items // 5, 200.0, is_shared=False),
        Load("fast", items, 2000.0),
        Load("fast_alone", items, 2000.0, is_shared=False),
    ]


async def measure(sandbox: Sandbox, load: Load, live: LiveLine) -> dict[str, Any]:
    await sandbox.clear()
    orders = Orders(sandbox.url, sandbox.schema)
    async with start_children(WORKER, orders, folder=ROOT) as [child]:
        await child.go()
        began = time.monotonic()
        arrived = await _arrive(sandbox, load)
        await wait_until_all_settled(
            [child], load.items, lambda done, _: live.progress(done, load.items)
        )
        seconds = time.monotonic() - began
        stamps = (await child.stop()).stamps
    if len(stamps) != load.items:
        raise BenchFailed(f"Of {load.items} items {len(stamps)} were begun.")
    calls = len(set(stamps.values())) if load.is_shared else load.items
    waits = [stamps[number] - arrived[number] for number in stamps]
    return {
        "items": load.items,
        "rate": load.rate,
        "calls": calls,
        "ideal": ceil(load.items / BATCH.size),
        "seconds": round(seconds, 2),
        "wait_ms": None if load.rate is None else _waits(waits),
    }


async def _arrive(sandbox: Sandbox, load: Load) -> dict[int, float]:
    """Enqueue each item when it is due; when each was handed over."""
    task, zero = shared if load.is_shared else alone, time.monotonic()
    arrived: dict[int, float] = {}
    while (sent := len(arrived)) < load.items:
        now = time.monotonic()
        due = sent + AT_ONCE if load.rate is None else int((now - zero) * load.rate) + 1
        numbers = range(sent, min(due, load.items))
        arrived.update(dict.fromkeys(numbers, now))
        await sandbox.app.enqueue_many(task.prepare(number) for number in numbers)
        await asyncio.sleep(EVERY)
    return arrived


def _waits(seconds: list[float]) -> dict[str, float]:
    cuts = [round(cut * 1000, 1) for cut in quantiles(seconds, n=100, method="inclusive")]
    return {"p50": cuts[49], "p95": cuts[94], "p99": cuts[98]}
