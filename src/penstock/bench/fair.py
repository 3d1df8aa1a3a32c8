"""Compare fair queues, with and without limits, with a plain queue."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from penstock.bench.drain import Drain, drain, median_of
from penstock.bench.plan import FEW_TENANTS, BenchPlan
from penstock.bench.report import LiveLine
from penstock.bench.rounds import measure_single_enqueues
from penstock.bench.sandbox import QUEUE, Sandbox
from penstock.worker.limits.slots import DEFAULT_SLOTS

# No measurement reaches this limit. What is measured is the cost of counting.
UNREACHED_LIMIT = 1_000_000


@dataclass(frozen=True, slots=True)
class BenchLimit:
    """How many jobs of a key may run at once, and how many may start in a second."""

    key: str
    slots: int | None = None
    rate: float | None = None


# Slots and a rate for the whole queue, and slots for each tenant. None of them holds a job back.
LOOSE_LIMITS = (
    BenchLimit(f"queue:{QUEUE}", slots=UNREACHED_LIMIT, rate=UNREACHED_LIMIT),
    BenchLimit(f"lane:{QUEUE}:*", slots=DEFAULT_SLOTS),
)
# As many slots as the worker has, so the jobs that it prefetches have to wait.
TIGHT_LIMITS = (BenchLimit(f"queue:{QUEUE}", slots=DEFAULT_SLOTS),)


@dataclass(frozen=True, slots=True)
class QueueSetup:
    """The setup of a queue: plain or fair, the number of its tenants, and its limits."""

    tenants: int = 0
    limits: Sequence[BenchLimit] = ()

    async def apply(self, sandbox: Sandbox) -> None:
        """Set up the queue, and remove limits that another setup has left."""
        app = sandbox.app
        await app.set_queue(QUEUE, fair=bool(self.tenants))
        for limit in (*LOOSE_LIMITS, *TIGHT_LIMITS):
            await app.remove_limit(limit.key)
        for limit in self.limits:
            await app.set_limit(limit.key, slots=limit.slots, rate=limit.rate, burst=limit.rate)


def tenant_names(count: int, total: int) -> list[str]:
    """Return `count` names of tenants, spread evenly among all `total` tenants of a queue."""
    return [f"tenant-{number * total // count:06}" for number in range(count)]


@dataclass(frozen=True, slots=True)
class Scene:
    """One drain of a round: the setup of its queue, and the conditions under which it runs."""

    label: str
    setup: QueueSetup
    compared_with: tuple[str, ...] = ("plain",)
    processes: int = 1
    held: bool = False  # Another session holds a snapshot.
    emptied: int = 0  # This many tenants had jobs under that snapshot, and have none now.


def fair_scenes(tenants: int) -> dict[str, Scene]:
    """Return the scenes of one round, by their names in the document."""
    few, many = f"{FEW_TENANTS} tenants", f"{tenants:,} tenants"
    limited = QueueSetup(tenants, LOOSE_LIMITS)
    both = {
        "plain": Scene("plain queue", QueueSetup(), ()),
        "one": Scene("fair queue, 1 tenant", QueueSetup(1)),
        "few": Scene(f"fair queue, {few}", QueueSetup(FEW_TENANTS)),
        "many": Scene(f"fair queue, {many}", QueueSetup(tenants), ("plain", "one")),
        "few_limited": Scene(f"fair and limited, {few}", QueueSetup(FEW_TENANTS, LOOSE_LIMITS)),
        "many_limited": Scene(f"fair and limited, {many}", limited),
    }
    gone = tenants - FEW_TENANTS
    return {
        **both,
        **{f"{name}_held": _held(scene) for name, scene in both.items()},
        "emptied_one": Scene(
            "fair queue, 1 tenant, others' jobs done", QueueSetup(1), (), held=True, emptied=1
        ),
        "emptied": Scene(
            f"fair queue, {gone:,} of {many} done",
            QueueSetup(FEW_TENANTS), ("emptied_one",), held=True, emptied=gone,
        ),
        "bound": Scene("plain queue, limited to the slots", QueueSetup(limits=TIGHT_LIMITS)),
        "plain_two": Scene("plain queue, 2 processes", QueueSetup(), (), 2),
        "many_limited_two": Scene(
            f"fair and limited, {many}, 2 processes", limited, ("plain_two",), 2
        ),
    }  # fmt: skip


def _held(scene: Scene) -> Scene:
    compared_with = tuple(f"{name}_held" for name in scene.compared_with)
    return Scene(f"{scene.label}, held", scene.setup, compared_with, held=True)


TENANTS_PER_CLAIM = 1000

# These jobs are enqueued and claimed as all jobs are, and then deleted. They are not copied into
# the history, because that does not matter here.
CLAIM_JOBS_OF_TENANTS = """
SELECT count(*)
  FROM claim_v1($1, $2, $3, array_fill(0::smallint, ARRAY[$4::integer]),
                array_fill('-infinity'::timestamptz, ARRAY[$4]), array_fill(0::bigint, ARRAY[$4]),
                array_fill($5::integer, ARRAY[$4]), $4 * $5)
"""
REMOVE_CLAIMED_JOBS = "DELETE FROM job WHERE state = 'running' AND lease = $1"


async def leave_emptied(sandbox: Sandbox, tenants: Sequence[str], jobs: int) -> None:
    """Enqueue jobs of the tenants and remove them all, so that the tenants have no jobs left."""
    await sandbox.fill(jobs, tenants)
    lease = await sandbox.app.store.open_lease(sandbox.connection, "emptied", 86_400.0, {})
    jobs_per_tenant = -(-jobs // len(tenants))
    for start in range(0, len(tenants), TENANTS_PER_CLAIM):
        lanes = tenants[start : start + TENANTS_PER_CLAIM]
        await sandbox.connection.execute(
            CLAIM_JOBS_OF_TENANTS, lease, QUEUE, lanes, len(lanes), jobs_per_tenant
        )
    await sandbox.connection.execute(REMOVE_CLAIMED_JOBS, lease)


# The scenes whose enqueues are compared, too.
ENQUEUE_SCENES = ("plain", "many")


class FairComparison:
    """Drain the queue once for each scene, and repeat that for several rounds.

    A round runs all scenes in turn, so a noisy moment affects all of them.
    """

    def __init__(
        self, sandbox: Sandbox, plan: BenchPlan, live: LiveLine, scenes: Mapping[str, Scene]
    ) -> None:
        self._sandbox = sandbox
        self._plan = plan
        self._live = live
        self._scenes = scenes
        self._drains: dict[str, list[Drain]] = defaultdict(list)
        self._bulk: dict[str, list[float]] = defaultdict(list)
        self._single: dict[str, list[float]] = defaultdict(list)
        # The seconds from the start of the processes to their first claim.
        self._first_claim: dict[str, list[float]] = defaultdict(list)

    async def run(self) -> None:
        for number in range(self._plan.rounds):
            # Every other round goes backwards, so no scene always follows the same one.
            order = list(self._scenes.items())
            for name, scene in order if number % 2 == 0 else reversed(order):
                await self._drain(name, scene)
            for name in ENQUEUE_SCENES:
                await self._enqueue(name, self._scenes[name].setup)
        await QueueSetup().apply(self._sandbox)

    async def _drain(self, name: str, scene: Scene) -> None:
        jobs = self._plan.jobs
        async with self._prepare(name, scene):
            began = time.monotonic()
            with self._live.doing(scene.label):
                result = await drain(
                    self._sandbox,
                    jobs,
                    lambda done, _: self._live.progress(done, jobs),
                    processes=scene.processes,
                )
        self._drains[name].append(result)
        self._first_claim[name].append(result.timeline.began - began)
        self._live.result(scene.label, f"{result.rate:>10,.0f} jobs/s")

    @asynccontextmanager
    async def _prepare(self, name: str, scene: Scene) -> AsyncIterator[None]:
        """Fill the queue for a scene. If the scene has a snapshot, hold it within the block."""
        sandbox, jobs = self._sandbox, self._plan.jobs
        all_tenants = tenant_names(self._plan.tenants, self._plan.tenants)
        owners = tenant_names(scene.setup.tenants, self._plan.tenants)
        async with AsyncExitStack() as stack:
            with self._live.doing(f"{scene.label}: enqueue"):
                await scene.setup.apply(sandbox)
                await sandbox.clear()
                if scene.emptied:
                    await stack.enter_async_context(sandbox.held_snapshot())
                    others = [name for name in all_tenants if name not in owners]
                    await leave_emptied(sandbox, others[: scene.emptied], jobs)
                seconds = await sandbox.fill(jobs, owners)
                self._bulk[name].append(jobs / seconds)
                await sandbox.vacuum()
            if scene.held and not scene.emptied:
                await stack.enter_async_context(sandbox.held_snapshot())
            yield

    async def _enqueue(self, name: str, setup: QueueSetup) -> None:
        await setup.apply(self._sandbox)
        with self._live.doing("enqueue one by one"):
            rate = await measure_single_enqueues(
                self._sandbox, self._plan.single_jobs, tenant_names(setup.tenants, setup.tenants)
            )
        self._single[name].append(rate)
        self._live.result(f"enqueue one by one, {name}", f"{rate:>10,.0f} jobs/s")

    # Results

    def as_dict(self) -> dict[str, Any]:
        return {
            "tenants": self._plan.tenants,
            "drains": {name: self._describe_drains(name) for name in self._scenes},
            "enqueue": {
                "single_per_s": {
                    name: round(median_of(rates), 1) for name, rates in self._single.items()
                },
                "single_over_plain": compare_rates(self._single["many"], self._single["plain"]),
                "bulk_per_s": {
                    name: round(median_of(self._bulk[name]), 1) for name in ENQUEUE_SCENES
                },
                "bulk_over_plain": compare_rates(self._bulk["many"], self._bulk["plain"]),
            },
        }

    def _describe_drains(self, name: str) -> dict[str, Any]:
        scene, drains = self._scenes[name], self._drains[name]
        server = [drain.server_cpu_ms_per_1000 for drain in drains]
        known = [spent for spent in server if spent is not None]
        return {
            "what": scene.label,
            "jobs_per_s": round(median_of(self._rates(name)), 1),
            "rounds": [round(rate, 1) for rate in self._rates(name)],
            "over": {
                other: compare_rates(self._rates(name), self._rates(other))
                for other in scene.compared_with
            },
            "last_over_first": round(median_of([drain.last_over_first for drain in drains]), 3),
            "first_claim_s": round(median_of(self._first_claim[name]), 2),
            "cpu_ms_per_1000_jobs": round(
                median_of([drain.cpu_ms_per_1000 for drain in drains]), 2
            ),
            "postgres_cpu_ms_per_1000_jobs": round(median_of(known), 2) if known else None,
        }

    def _rates(self, name: str) -> list[float]:
        return [drain.rate for drain in self._drains[name]]


def compare_rates(rates: Sequence[float], baseline: Sequence[float]) -> dict[str, float]:
    """Divide rates by a baseline, round by round. Return the median, least and greatest ratio."""
    ratios = [rate / base for rate, base in zip(rates, baseline, strict=True)]
    summary = {"median": median_of(ratios), "least": min(ratios), "most": max(ratios)}
    return {name: round(value, 3) for name, value in summary.items()}
