"""Compare draining one batch with draining plain jobs, with and without a held snapshot."""

from __future__ import annotations

from collections import defaultdict
from contextlib import AsyncExitStack
from typing import Any, Final

from penstock.bench.child import BenchFailed
from penstock.bench.drain import Drain, drain, median_of
from penstock.bench.fair import compare_rates
from penstock.bench.plan import BenchPlan
from penstock.bench.report import LiveLine
from penstock.bench.rounds import median_tenths
from penstock.bench.sandbox import Sandbox

# For each scene, whether the jobs are one batch, and whether another session holds a snapshot.
SCENES: Final = {
    "plain": (False, False),
    "batch": (True, False),
    "plain_held": (False, True),
    "batch_held": (True, True),
}


class BatchComparison:
    """Drain the queue once for each scene, and repeat that for several rounds.

    A round runs all scenes in turn, so a noisy moment affects all of them.
    """

    def __init__(self, sandbox: Sandbox, plan: BenchPlan, live: LiveLine) -> None:
        self._sandbox = sandbox
        self._plan = plan
        self._live = live
        self._drains: dict[str, list[Drain]] = defaultdict(list)
        self._bulk: dict[str, list[float]] = defaultdict(list)

    async def run(self) -> None:
        for number in range(self._plan.rounds):
            order = list(SCENES)
            for name in order if number % 2 == 0 else reversed(order):
                await self._drain(name)

    async def _drain(self, name: str) -> None:
        sandbox, jobs = self._sandbox, self._plan.jobs
        is_batch, is_held = SCENES[name]
        await sandbox.clear()
        with self._live.doing(f"{_label(name)}: enqueue"):
            seconds = await (sandbox.fill_batch(jobs) if is_batch else sandbox.fill(jobs))
            await sandbox.vacuum()
        async with AsyncExitStack() as stack:
            if is_held:
                await stack.enter_async_context(sandbox.held_snapshot())
            with self._live.doing(_label(name)):
                result = await drain(sandbox, jobs, lambda done, _: self._live.progress(done, jobs))
        if is_batch:
            await self._check_counts(jobs)
        self._bulk[name].append(jobs / seconds)
        self._drains[name].append(result)
        self._live.result(_label(name), f"{result.rate:>10,.0f} jobs/s")

    async def _check_counts(self, jobs: int) -> None:
        """Check that the batch counts all of its jobs as completed."""
        [status] = (await self._sandbox.app.batches()).batches
        if (status.total, status.completed, status.pending) != (jobs, jobs, 0):
            raise BenchFailed(f"The counts of the batch are wrong: {status}.")

    # Results

    def as_dict(self) -> dict[str, Any]:
        return {
            "drains": {name: self._describe_drains(name) for name in SCENES},
            "bulk_over_plain": compare_rates(self._bulk["batch"], self._bulk["plain"]),
        }

    def _describe_drains(self, name: str) -> dict[str, Any]:
        drains = self._drains[name]
        rates = [drain.rate for drain in drains]
        plain = name.replace("batch", "plain")
        baselines = {} if name == plain else {plain: [drain.rate for drain in self._drains[plain]]}
        return {
            "what": _label(name),
            "jobs_per_s": round(median_of(rates), 1),
            "rounds": [round(rate, 1) for rate in rates],
            "over": {
                other: compare_rates(rates, baseline) for other, baseline in baselines.items()
            },
            "last_over_first": round(median_of([drain.last_over_first for drain in drains]), 3),
            "tenths": median_tenths(drains),
        }


def _label(name: str) -> str:
    is_batch, is_held = SCENES[name]
    return ("one batch" if is_batch else "plain jobs") + (", held" if is_held else "")
