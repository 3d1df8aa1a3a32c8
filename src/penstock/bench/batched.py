"""One batch of all jobs against plain jobs, free and under a held snapshot; in turn."""

from __future__ import annotations

from collections import defaultdict
from contextlib import AsyncExitStack
from typing import Any, Final

from penstock.bench.child import BenchFailed
from penstock.bench.drain import Drain, drain, typical
from penstock.bench.fair import over
from penstock.bench.ground import Ground
from penstock.bench.plan import Plan
from penstock.bench.report import Live
from penstock.bench.rounds import tenths

# By name: whether the jobs are one batch, and whether another session holds a snapshot.
SCENES: Final = {
    "plain": (False, False),
    "batch": (True, False),
    "plain_held": (False, True),
    "batch_held": (True, True),
}


class Batched:
    """What each round gave; interleaved, so that a noisy moment hits all of them alike."""

    def __init__(self, ground: Ground, plan: Plan, live: Live) -> None:
        self._ground = ground
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
        ground, jobs = self._ground, self._plan.jobs
        is_batch, is_held = SCENES[name]
        await ground.clear()
        with self._live.doing(f"{_what(name)}: enqueue"):
            seconds = await (ground.fill_batch(jobs) if is_batch else ground.fill(jobs))
            await ground.tidy()
        async with AsyncExitStack() as stack:
            if is_held:
                await stack.enter_async_context(ground.held_snapshot())
            with self._live.doing(_what(name)):
                one = await drain(ground, jobs, lambda done, _: self._live.progress(done, jobs))
        if is_batch:
            await self._check(jobs)
        self._bulk[name].append(jobs / seconds)
        self._drains[name].append(one)
        self._live.result(_what(name), f"{one.rate:>10,.0f} jobs/s")

    async def _check(self, jobs: int) -> None:
        """What is counted must be what was done."""
        [status] = (await self._ground.app.batches()).batches
        if (status.total, status.completed, status.pending) != (jobs, jobs, 0):
            raise BenchFailed(f"The counts of the batch are wrong: {status}.")

    # What they came to

    def as_dict(self) -> dict[str, Any]:
        return {
            "drains": {name: self._described(name) for name in SCENES},
            "bulk_over_plain": over(self._bulk["batch"], self._bulk["plain"]),
        }

    def _described(self, name: str) -> dict[str, Any]:
        drains = self._drains[name]
        rates = [one.rate for one in drains]
        plain = name.replace("batch", "plain")
        against = {} if name == plain else {plain: [one.rate for one in self._drains[plain]]}
        return {
            "what": _what(name),
            "jobs_per_s": round(typical(rates), 1),
            "rounds": [round(rate, 1) for rate in rates],
            "over": {other: over(rates, theirs) for other, theirs in against.items()},
            "last_over_first": round(typical([one.last_over_first for one in drains]), 3),
            "tenths": tenths(drains),
        }


def _what(name: str) -> str:
    is_batch, is_held = SCENES[name]
    return ("one batch" if is_batch else "plain jobs") + (", held" if is_held else "")
