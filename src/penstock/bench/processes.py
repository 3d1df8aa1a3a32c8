"""Several worker processes on one queue, against one."""

from __future__ import annotations

from typing import Any

from penstock.bench.drain import drain, typical
from penstock.bench.ground import Ground
from penstock.bench.live import Live
from penstock.bench.plan import Plan


async def against_one(ground: Ground, plan: Plan, live: Live) -> dict[str, Any]:
    """Rates of one and of several, in turn."""
    rates: dict[int, list[float]] = {1: [], plan.processes: []}
    for _ in range(plan.rounds):
        for count, seen in rates.items():
            await ground.refill(plan.jobs)
            what = f"drain by {count} process{'es' if count > 1 else ''}"
            with live.doing(what):
                one = await drain(
                    ground,
                    plan.jobs,
                    lambda done, _: live.progress(done, plan.jobs),
                    processes=count,
                )
            seen.append(one.rate)
            live.result(what, f"{one.rate:>10,.0f} jobs/s")
    alone, together = typical(rates[1]), typical(rates[plan.processes])
    return {
        "count": plan.processes,
        "jobs_per_s": round(together, 1),
        "one_jobs_per_s": round(alone, 1),
        "ratio": round(together / alone, 3),
    }
