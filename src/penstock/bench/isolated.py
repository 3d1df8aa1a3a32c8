"""Jobs in child processes against the same in the worker; and how soon a dead child is replaced."""

from __future__ import annotations

import asyncio
import os
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from penstock.bench import tasks
from penstock.bench.child import BenchFailed, children
from penstock.bench.drain import Drain, drain, typical
from penstock.bench.fair import over
from penstock.bench.ground import Ground
from penstock.bench.measured import Orders
from penstock.bench.plan import Plan
from penstock.bench.report import Live
from penstock.bench.rounds import Latency, tenths

# By name: what it is called, the task, and what it is compared with.
SCENES: Final = {
    "plain": ("plain, async", tasks.noop, None),
    "isolated": ("in children, async", tasks.isolated, "plain"),
    "plain_sync": ("plain, in threads", tasks.noop_sync, None),
    "isolated_sync": ("in children, in threads", tasks.isolated_sync, "plain_sync"),
}
DEATHS: Final = 200
LOOK: Final = 0.05
PATIENCE: Final = 60.0


class Isolated:
    """What each round gave; interleaved, so that a noisy moment hits all of them alike."""

    def __init__(
        self,
        ground: Ground,
        plan: Plan,
        live: Live,
        scenes: Sequence[str] = tuple(SCENES),
        *,
        deaths: int = DEATHS,
    ) -> None:
        self._ground = ground
        self._plan = plan
        self._live = live
        self._scenes = scenes
        self._drains: dict[str, list[Drain]] = defaultdict(list)
        self._deaths = deaths
        self._next: Latency

    async def run(self) -> None:
        for number in range(self._plan.rounds):
            order = self._scenes
            for name in order if number % 2 == 0 else reversed(order):
                await self._drain(name)
        with self._live.doing("children die"):
            self._next = await next_child(self._ground, self._deaths)
        self._live.result("from a child's death to the next job", f"{self._next.p50:>10,.1f} ms")

    async def _drain(self, name: str) -> None:
        ground, jobs = self._ground, self._plan.isolated_jobs
        what, task, _ = SCENES[name]
        await ground.clear()
        with self._live.doing(f"{what}: enqueue"):
            await ground.fill(jobs, task=task)
            await ground.tidy()
        with self._live.doing(what):
            one = await drain(ground, jobs, lambda done, _: self._live.progress(done, jobs))
        self._drains[name].append(one)
        self._live.result(what, f"{one.rate:>10,.0f} jobs/s")

    # What they came to

    def as_dict(self) -> dict[str, Any]:
        return {
            "jobs": self._plan.isolated_jobs,
            "children": os.cpu_count(),
            "drains": {name: self._described(name) for name in self._scenes},
            "next_child_ms": asdict(self._next),
        }

    def _described(self, name: str) -> dict[str, Any]:
        what, _, plain = SCENES[name]
        drains = self._drains[name]
        rates = [one.rate for one in drains]
        spent = [one.children_cpu_ms_per_1000 for one in drains]
        known = [each for each in spent if each is not None]
        return {
            "what": what,
            "jobs_per_s": round(typical(rates), 1),
            # Without the first tenth, in which the children are started.
            "warm_jobs_per_s": round(typical(tenths(drains)[1:]), 1),
            "rounds": [round(rate, 1) for rate in rates],
            "over": {plain: over(rates, [one.rate for one in self._drains[plain]])}
            if plain
            else {},
            # Milliseconds of a thousand jobs are microseconds of one.
            "worker_cpu_us_per_job": round(typical([one.cpu_ms_per_1000 for one in drains]), 1),
            "children_cpu_us_per_job": round(typical(known), 1) if known else None,
        }


async def next_child(ground: Ground, deaths: int) -> Latency:
    """From the end of a child to the beginning of a job in the next, one child at a time."""
    await ground.clear()
    with TemporaryDirectory() as folder:
        lives = Path(folder) / "lives"
        task = tasks.dies.options(max_attempts=1)
        await ground.app.enqueue_many(task.prepare(str(lives)) for _ in range(deaths))
        orders = Orders(ground.url, ground.schema, children=1)
        async with children(ground.worker, orders) as [child]:
            await child.go()
            await _all_dead(ground)
            await child.stop()
        told = [tuple(map(float, line.split())) for line in lives.read_text().splitlines()]
    return Latency.of([began - ended for (_, ended), (began, _) in pairwise(sorted(told))])


async def _all_dead(ground: Ground) -> None:
    until = time.monotonic() + PATIENCE
    while left := await ground.left():
        if time.monotonic() > until:
            raise BenchFailed(f"After {PATIENCE:.0f} s there are {left} jobs left.")
        await asyncio.sleep(LOOK)
