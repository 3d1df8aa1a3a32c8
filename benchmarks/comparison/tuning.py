"""The sweep: each entrant's settings tried in turn, and the fastest kept."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from benchmarks.comparison import enqueue
from benchmarks.comparison.drain import drain
from benchmarks.comparison.entrant import spelled
from benchmarks.comparison.rounds import Lane
from penstock.bench.child import BenchFailed


async def tune(lanes: Sequence[Lane]) -> None:
    """For every entrant that has something to try."""
    for lane in lanes:
        if lane.entrant.facts.tried and lane.entrant.fault is None:
            with lane.live.doing(f"{lane.name}: settings"):
                await _tune(lane)


async def _tune(lane: Lane) -> None:
    variants = {spelled(one): one for one in lane.entrant.variants()}
    rates: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(lane.plan.tune_rounds):
        for name, settings in variants.items():
            lane.entrant.settings = settings
            try:
                rates[name].append(await _rate(lane))
            except (BenchFailed, TimeoutError) as error:
                lane.live.warn(f"{lane.name}, {name}: {error}")
    found = {name: round(mean(seen), 1) for name, seen in rates.items() if seen}
    for name, rate in found.items():
        lane.live.result(f"{lane.name}, {name}", f"{rate:>10,.0f} jobs/s")
    lane.entrant.tried = found
    best = max(found, key=lambda name: found[name], default=None)
    lane.entrant.settings = variants[best] if best else lane.entrant.facts.settings


async def _rate(lane: Lane) -> float:
    plan = lane.plan
    jobs = plan.jobs(lane.entrant.facts.jobs, plan.tune_share)
    async with lane.postgres.database(lane.entrant.key, lane.empty) as database:
        await enqueue.in_bulk(lane.entrant, database, jobs)
        await database.tidy()
        return (await drain(lane.postgres, lane.entrant, database, jobs, lane.live)).rate
