"""Compare a fair queue, with limits and without, with a plain one."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from penstock.bench.drain import Drain, drain, typical
from penstock.bench.ground import QUEUE, Ground
from penstock.bench.plan import FEW_TENANTS, Plan
from penstock.bench.report import Live
from penstock.bench.rounds import single_rate
from penstock.worker.limits.slots import DEFAULT_SLOTS

# Far above what is ever reached: what is measured is that somebody counts.
PLENTY = 1_000_000


@dataclass(frozen=True, slots=True)
class Limit:
    """How many jobs of a key may run at once, and how many may start in a second."""

    key: str
    slots: int | None = None
    rate: float | None = None


# The whole queue, each tenant by itself, and a rate: none of them holds a job back.
LOOSE = (
    Limit(f"queue:{QUEUE}", slots=PLENTY, rate=PLENTY),
    Limit(f"lane:{QUEUE}:*", slots=DEFAULT_SLOTS),
)
# As many as the worker has slots: what it claims ahead has to wait.
TIGHT = (Limit(f"queue:{QUEUE}", slots=DEFAULT_SLOTS),)


@dataclass(frozen=True, slots=True)
class Setup:
    """A plain queue, or a fair one with so many tenants; with limits or without."""

    tenants: int = 0
    limits: Sequence[Limit] = ()

    async def arrange(self, ground: Ground) -> None:
        """Set the queue up like this, and no otherwise."""
        app = ground.app
        await app.set_queue(QUEUE, fair=bool(self.tenants))
        for limit in (*LOOSE, *TIGHT):
            await app.remove_limit(limit.key)
        for limit in self.limits:
            await app.set_limit(limit.key, slots=limit.slots, rate=limit.rate, burst=limit.rate)


def tenant_names(tenants: int, among: int) -> list[str]:
    """Some tenants, spread evenly over those of a larger queue."""
    return [f"tenant-{number * among // tenants:06}" for number in range(tenants)]


@dataclass(frozen=True, slots=True)
class Scene:
    """One drain: the queue, and what is around it."""

    what: str
    setup: Setup
    against: tuple[str, ...] = ("plain",)
    processes: int = 1
    held: bool = False  # Another session holds a snapshot.
    emptied: int = 0  # So many tenants had jobs under that snapshot, and have none now.


def scenes(tenants: int) -> dict[str, Scene]:
    """Those of one round, by the names that the document has for them."""
    few, many = f"{FEW_TENANTS} tenants", f"{tenants:,} tenants"
    limited = Setup(tenants, LOOSE)
    both = {
        "plain": Scene("plain queue", Setup(), ()),
        "one": Scene("fair queue, 1 tenant", Setup(1)),
        "few": Scene(f"fair queue, {few}", Setup(FEW_TENANTS)),
        "many": Scene(f"fair queue, {many}", Setup(tenants), ("plain", "one")),
        "few_limited": Scene(f"fair and limited, {few}", Setup(FEW_TENANTS, LOOSE)),
        "many_limited": Scene(f"fair and limited, {many}", limited),
    }
    gone = tenants - FEW_TENANTS
    return {
        **both,
        **{f"{name}_held": _held(scene) for name, scene in both.items()},
        "emptied_one": Scene(
            "fair queue, 1 tenant, others' jobs done", Setup(1), (), held=True, emptied=1
        ),
        "emptied": Scene(
            f"fair queue, {gone:,} of {many} done",
            Setup(FEW_TENANTS), ("emptied_one",), held=True, emptied=gone,
        ),
        "bound": Scene("plain queue, limited to the slots", Setup(limits=TIGHT)),
        "plain_two": Scene("plain queue, 2 processes", Setup(), (), 2),
        "many_limited_two": Scene(
            f"fair and limited, {many}, 2 processes", limited, ("plain_two",), 2
        ),
    }  # fmt: skip


def _held(scene: Scene) -> Scene:
    against = tuple(f"{name}_held" for name in scene.against)
    return Scene(f"{scene.what}, held", scene.setup, against, held=True)


TENANTS_PER_CLAIM = 1000

# The jobs go the way of all jobs, but for the copy into history, which plays no part here.
CLAIM_JOBS_OF_TENANTS = """
SELECT count(*)
  FROM claim_v1($1, $2, $3, array_fill(0::smallint, ARRAY[$4::integer]),
                array_fill('-infinity'::timestamptz, ARRAY[$4]), array_fill(0::bigint, ARRAY[$4]),
                array_fill($5::integer, ARRAY[$4]), $4 * $5)
"""
REMOVE_CLAIMED_JOBS = "DELETE FROM job WHERE state = 'running' AND lease = $1"


async def leave_emptied(ground: Ground, tenants: Sequence[str], jobs: int) -> None:
    """So many jobs come and go, shared by the tenants."""
    await ground.fill(jobs, tenants)
    lease = await ground.app.store.open_lease(ground.connection, "emptied", 86_400.0, {})
    each = -(-jobs // len(tenants))
    for start in range(0, len(tenants), TENANTS_PER_CLAIM):
        some = tenants[start : start + TENANTS_PER_CLAIM]
        await ground.connection.execute(CLAIM_JOBS_OF_TENANTS, lease, QUEUE, some, len(some), each)
    await ground.connection.execute(REMOVE_CLAIMED_JOBS, lease)


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
        everybody = tenant_names(self._plan.tenants, self._plan.tenants)
        owners = tenant_names(scene.setup.tenants, self._plan.tenants)
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
                self._ground, self._plan.single_jobs, tenant_names(setup.tenants, setup.tenants)
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
