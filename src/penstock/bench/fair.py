"""A fair queue, with limits and without, against a plain one; in turn, round by round."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from penstock.bench.drain import Drain, drain, typical
from penstock.bench.emptied import leave_emptied
from penstock.bench.enqueue import single_rate
from penstock.bench.ground import Ground
from penstock.bench.live import Live
from penstock.bench.plan import Plan
from penstock.bench.scenes import Scene
from penstock.bench.setup import Setup, names

# Their enqueues are compared, too.
ENQUEUED = ("plain", "many")


class Fair:
    """What each round gave; interleaved, so that a noisy moment hits all of them alike."""

    def __init__(self, ground: Ground, plan: Plan, live: Live, scenes: Mapping[str, Scene]) -> None:
        self._ground = ground
        self._plan = plan
        self._live = live
        self._scenes = scenes
        self._drains: dict[str, list[Drain]] = defaultdict(list)
        self._bulk: dict[str, list[float]] = defaultdict(list)
        self._single: dict[str, list[float]] = defaultdict(list)
        # From the start of the processes, which look for the first jobs, to the first claim.
        self._looked: dict[str, list[float]] = defaultdict(list)

    async def run(self) -> None:
        for number in range(self._plan.rounds):
            # Nobody is always after the same neighbour.
            order = list(self._scenes.items())
            for name, scene in order if number % 2 == 0 else reversed(order):
                await self._drain(name, scene)
            for name in ENQUEUED:
                await self._enqueue(name, self._scenes[name].setup)
        await Setup().arrange(self._ground)

    async def _drain(self, name: str, scene: Scene) -> None:
        jobs = self._plan.jobs
        async with self._staged(name, scene):
            began = time.monotonic()
            with self._live.doing(scene.what):
                one = await drain(
                    self._ground,
                    jobs,
                    lambda done, _: self._live.progress(done, jobs),
                    processes=scene.processes,
                )
        self._drains[name].append(one)
        self._looked[name].append(one.timeline.began - began)
        self._live.result(scene.what, f"{one.rate:>10,.0f} jobs/s")

    @asynccontextmanager
    async def _staged(self, name: str, scene: Scene) -> AsyncIterator[None]:
        """The queue full, and the snapshot held where there is one."""
        ground, jobs = self._ground, self._plan.jobs
        everybody = names(self._plan.tenants, self._plan.tenants)
        owners = names(scene.setup.tenants, self._plan.tenants)
        async with AsyncExitStack() as stack:
            with self._live.doing(f"{scene.what}: enqueue"):
                await scene.setup.arrange(ground)
                await ground.clear()
                if scene.emptied:
                    await stack.enter_async_context(ground.held_snapshot())
                    others = [name for name in everybody if name not in owners]
                    await leave_emptied(ground, others[: scene.emptied], jobs)
                seconds = await ground.fill(jobs, owners)
                self._bulk[name].append(jobs / seconds)
                await ground.tidy()
            if scene.held and not scene.emptied:
                await stack.enter_async_context(ground.held_snapshot())
            yield

    async def _enqueue(self, name: str, setup: Setup) -> None:
        await setup.arrange(self._ground)
        with self._live.doing("enqueue one by one"):
            rate = await single_rate(
                self._ground, self._plan.single_jobs, names(setup.tenants, setup.tenants)
            )
        self._single[name].append(rate)
        self._live.result(f"enqueue one by one, {name}", f"{rate:>10,.0f} jobs/s")

    # What they came to

    def as_dict(self) -> dict[str, Any]:
        return {
            "tenants": self._plan.tenants,
            "drains": {name: self._described(name) for name in self._scenes},
            "enqueue": {
                "single_per_s": {
                    name: round(typical(seen), 1) for name, seen in self._single.items()
                },
                "single_over_plain": over(self._single["many"], self._single["plain"]),
                "bulk_per_s": {name: round(typical(self._bulk[name]), 1) for name in ENQUEUED},
                "bulk_over_plain": over(self._bulk["many"], self._bulk["plain"]),
            },
        }

    def _described(self, name: str) -> dict[str, Any]:
        scene, drains = self._scenes[name], self._drains[name]
        server = [one.server_cpu_ms_per_1000 for one in drains]
        known = [spent for spent in server if spent is not None]
        return {
            "what": scene.what,
            "jobs_per_s": round(typical(self._rates(name)), 1),
            "rounds": [round(rate, 1) for rate in self._rates(name)],
            "over": {other: over(self._rates(name), self._rates(other)) for other in scene.against},
            "last_over_first": round(typical([one.last_over_first for one in drains]), 3),
            "first_claim_s": round(typical(self._looked[name]), 2),
            "cpu_ms_per_1000_jobs": round(typical([one.cpu_ms_per_1000 for one in drains]), 2),
            "postgres_cpu_ms_per_1000_jobs": round(typical(known), 2) if known else None,
        }

    def _rates(self, name: str) -> list[float]:
        return [one.rate for one in self._drains[name]]


def over(these: Sequence[float], those: Sequence[float]) -> dict[str, float]:
    """One against another, round by round: the median, the least and the most."""
    ratios = [one / other for one, other in zip(these, those, strict=True)]
    found = {"median": typical(ratios), "least": min(ratios), "most": max(ratios)}
    return {name: round(value, 3) for name, value in found.items()}
