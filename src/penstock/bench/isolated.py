"""Compare jobs in child processes with jobs in the worker, and time how a child is replaced."""

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
from penstock.bench.child import BenchFailed, start_children
from penstock.bench.drain import Drain, drain, median_of
from penstock.bench.fair import compare_rates
from penstock.bench.measured import Orders
from penstock.bench.plan import BenchPlan
from penstock.bench.report import LiveLine
from penstock.bench.rounds import Latency, median_tenths
from penstock.bench.sandbox import Sandbox

# For each scene, its label, its task, and the scene that it is compared with.
SCENES: Final = {
    "plain": ("plain, async", tasks.noop, None),
    "isolated": ("in children, async", tasks.isolated, "plain"),
    "plain_sync": ("plain, in threads", tasks.noop_sync, None),
    "isolated_sync": ("in children, in threads", tasks.isolated_sync, "plain_sync"),
}
DEATHS: Final = 200
POLL_INTERVAL_S: Final = 0.05
DEATHS_TIMEOUT_S: Final = 60.0


class IsolationComparison:
    """Drain the queue once for each scene, and repeat that for several rounds.

    A round runs all scenes in turn, so a noisy moment affects all of them. After the rounds,
    measure how fast dead child processes are replaced.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        plan: BenchPlan,
        live: LiveLine,
        scenes: Sequence[str] = tuple(SCENES),
        *,
        deaths: int = DEATHS,
    ) -> None:
        self._sandbox = sandbox
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
            self._next = await measure_next_child(self._sandbox, self._deaths)
        self._live.result("from a child's death to the next job", f"{self._next.p50:>10,.1f} ms")

    async def _drain(self, name: str) -> None:
        sandbox, jobs = self._sandbox, self._plan.isolated_jobs
        label, task, _ = SCENES[name]
        await sandbox.clear()
        with self._live.doing(f"{label}: enqueue"):
            await sandbox.fill(jobs, task=task)
            await sandbox.vacuum()
        with self._live.doing(label):
            result = await drain(sandbox, jobs, lambda done, _: self._live.progress(done, jobs))
        self._drains[name].append(result)
        self._live.result(label, f"{result.rate:>10,.0f} jobs/s")

    # Results

    def as_dict(self) -> dict[str, Any]:
        return {
            "jobs": self._plan.isolated_jobs,
            "children": os.cpu_count(),
            "drains": {name: self._describe_drains(name) for name in self._scenes},
            "next_child_ms": asdict(self._next),
        }

    def _describe_drains(self, name: str) -> dict[str, Any]:
        label, _, plain = SCENES[name]
        drains = self._drains[name]
        rates = [drain.rate for drain in drains]
        children = [drain.children_cpu_ms_per_1000 for drain in drains]
        known = [spent for spent in children if spent is not None]
        return {
            "what": label,
            "jobs_per_s": round(median_of(rates), 1),
            # The first tenth is left out, because the children are started in it.
            "warm_jobs_per_s": round(median_of(median_tenths(drains)[1:]), 1),
            "rounds": [round(rate, 1) for rate in rates],
            "over": {plain: compare_rates(rates, [drain.rate for drain in self._drains[plain]])}
            if plain
            else {},
            # Milliseconds per 1,000 jobs are microseconds per job.
            "worker_cpu_us_per_job": round(
                median_of([drain.cpu_ms_per_1000 for drain in drains]), 1
            ),
            "children_cpu_us_per_job": round(median_of(known), 1) if known else None,
        }


async def measure_next_child(sandbox: Sandbox, deaths: int) -> Latency:
    """Measure the time from a child's death to the start of a job in the next child.

    The worker has one child at a time.
    """
    await sandbox.clear()
    with TemporaryDirectory() as folder:
        lives = Path(folder) / "lives"
        task = tasks.dies.options(max_attempts=1)
        await sandbox.app.enqueue_many(task.prepare(str(lives)) for _ in range(deaths))
        orders = Orders(sandbox.url, sandbox.schema, children=1)
        async with start_children(sandbox.worker, orders) as [child]:
            await child.go()
            await _wait_until_no_jobs_left(sandbox)
            await child.stop()
        spans = [tuple(map(float, line.split())) for line in lives.read_text().splitlines()]
    return Latency.of([began - ended for (_, ended), (began, _) in pairwise(sorted(spans))])


async def _wait_until_no_jobs_left(sandbox: Sandbox) -> None:
    deadline = time.monotonic() + DEATHS_TIMEOUT_S
    while left := await sandbox.count_live_jobs():
        if time.monotonic() > deadline:
            raise BenchFailed(f"After {DEATHS_TIMEOUT_S:.0f} s there are {left} jobs left.")
        await asyncio.sleep(POLL_INTERVAL_S)
