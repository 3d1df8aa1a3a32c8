"""Run the bench, and return its results as one document."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from penstock.bench.batched import BatchComparison
from penstock.bench.drain import median_of
from penstock.bench.extras import (
    compare_processes,
    drain_past_dead_entries,
    measure_claims,
    measure_memory,
)
from penstock.bench.fair import FairComparison, fair_scenes
from penstock.bench.isolated import IsolationComparison
from penstock.bench.plan import BenchPlan
from penstock.bench.report import LiveLine
from penstock.bench.rounds import Rounds, measure_pick_up, measure_single_enqueues
from penstock.bench.sandbox import Sandbox, SandboxServer, machine, open_sandbox
from penstock.config import Database

NOT_DURABLE = (
    "This server may lose confirmed commits in a crash. Do not compare its numbers with "
    "those of a durable server."
)


async def measure(plan: BenchPlan, database: Database, live: LiveLine) -> dict[str, Any]:
    """Take all measurements of the plan, in a schema that is dropped afterwards."""
    async with open_sandbox(database) as sandbox:
        server, before = await SandboxServer.of(sandbox.connection), machine()
        if not server.is_durable:
            live.warn(NOT_DURABLE)
        rounds = Rounds(sandbox, live, plan.jobs)
        for _ in range(plan.rounds):
            await rounds.run_round()
        return {
            "jobs": plan.jobs,
            "rounds": plan.rounds,
            **rounds.as_dict(),
            "enqueue": await _enqueue(sandbox, plan, rounds, live),
            "latency_ms": await _latency(sandbox, plan, live),
            **await _extras(sandbox, plan, rounds.free_rate, live),
            **server.as_dict(),
            "machine": before,
        }


async def _extras(
    sandbox: Sandbox, plan: BenchPlan, free_rate: float, live: LiveLine
) -> dict[str, Any]:
    extras: dict[str, Any] = {}
    if plan.processes > 1:
        extras["processes"] = await compare_processes(sandbox, plan, live)
    if plan.backlog:
        extras["backlog"] = await measure_claims(sandbox, plan.backlog, live)
    if plan.soak:
        extras["soak"] = await measure_memory(sandbox, plan.soak, live)
    if plan.dead:
        extras["dead"] = await drain_past_dead_entries(
            sandbox, plan.jobs, plan.dead, free_rate, live
        )
    if plan.tenants:
        fair = FairComparison(sandbox, plan, live, fair_scenes(plan.tenants))
        await fair.run()
        extras["fair"] = fair.as_dict()
    if plan.batch:
        batched = BatchComparison(sandbox, plan, live)
        await batched.run()
        extras["batch"] = batched.as_dict()
    if plan.isolated:
        isolated = IsolationComparison(sandbox, plan, live)
        await isolated.run()
        extras["isolated"] = isolated.as_dict()
    return extras


async def _enqueue(
    sandbox: Sandbox, plan: BenchPlan, rounds: Rounds, live: LiveLine
) -> dict[str, float]:
    with live.doing("enqueue one by one"):
        single = await measure_single_enqueues(sandbox, plan.single_jobs)
    live.result("enqueue one by one", f"{single:>10,.0f} jobs/s")
    bulk = median_of(rounds.bulk)
    live.result("enqueue in bulk", f"{bulk:>10,.0f} jobs/s")
    return {"single_per_s": round(single, 1), "bulk_per_s": round(bulk, 1)}


async def _latency(sandbox: Sandbox, plan: BenchPlan, live: LiveLine) -> dict[str, float]:
    with live.doing("pick-up by an idle worker"):
        latency = await measure_pick_up(sandbox, plan.latency_jobs, live)
    live.result("pick-up by an idle worker", f"{latency.p50:>10,.2f} ms at the median")
    return asdict(latency)
