"""A whole run of the bench, as one document."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from penstock.bench.batched import Batched
from penstock.bench.drain import typical
from penstock.bench.extras import against_one, claim_times, memory, past_the_dead
from penstock.bench.fair import Fair, scenes
from penstock.bench.ground import Ground, Server, machine, open_ground
from penstock.bench.isolated import Isolated
from penstock.bench.plan import Plan
from penstock.bench.report import Live
from penstock.bench.rounds import Rounds, pick_up, single_rate
from penstock.config import Database

NOT_DURABLE = (
    "This server may lose confirmed commits in a crash: its numbers are no measure of others."
)


async def measure(plan: Plan, database: Database, live: Live) -> dict[str, Any]:
    """Measure everything of the plan in a schema of the bench's own."""
    async with open_ground(database) as ground:
        server, before = await Server.of(ground.connection), machine()
        if not server.is_durable:
            live.warn(NOT_DURABLE)
        rounds = Rounds(ground, live, plan.jobs)
        for _ in range(plan.rounds):
            await rounds.one()
        return {
            "jobs": plan.jobs,
            "rounds": plan.rounds,
            **rounds.as_dict(),
            "enqueue": await _enqueue(ground, plan, rounds, live),
            "latency_ms": await _latency(ground, plan, live),
            **await _extras(ground, plan, rounds.free_rate, live),
            **server.as_dict(),
            "machine": before,
        }


async def _extras(ground: Ground, plan: Plan, free_rate: float, live: Live) -> dict[str, Any]:
    extras: dict[str, Any] = {}
    if plan.processes > 1:
        extras["processes"] = await against_one(ground, plan, live)
    if plan.backlog:
        extras["backlog"] = await claim_times(ground, plan.backlog, live)
    if plan.soak:
        extras["soak"] = await memory(ground, plan.soak, live)
    if plan.dead:
        extras["dead"] = await past_the_dead(ground, plan.jobs, plan.dead, free_rate, live)
    if plan.tenants:
        fair = Fair(ground, plan, live, scenes(plan.tenants))
        await fair.run()
        extras["fair"] = fair.as_dict()
    if plan.batch:
        batched = Batched(ground, plan, live)
        await batched.run()
        extras["batch"] = batched.as_dict()
    if plan.isolated:
        isolated = Isolated(ground, plan, live)
        await isolated.run()
        extras["isolated"] = isolated.as_dict()
    return extras


async def _enqueue(ground: Ground, plan: Plan, rounds: Rounds, live: Live) -> dict[str, float]:
    with live.doing("enqueue one by one"):
        single = await single_rate(ground, plan.single_jobs)
    live.result("enqueue one by one", f"{single:>10,.0f} jobs/s")
    bulk = typical(rounds.bulk)
    live.result("enqueue in bulk", f"{bulk:>10,.0f} jobs/s")
    return {"single_per_s": round(single, 1), "bulk_per_s": round(bulk, 1)}


async def _latency(ground: Ground, plan: Plan, live: Live) -> dict[str, float]:
    with live.doing("pick-up by an idle worker"):
        latency = await pick_up(ground, plan.latency_jobs, live)
    live.result("pick-up by an idle worker", f"{latency.p50:>10,.2f} ms at the median")
    return asdict(latency)
