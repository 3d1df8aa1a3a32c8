"""Before and after, as one document."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from benchmarks.before_after.commit import Commit
from benchmarks.comparison import rounds
from benchmarks.comparison.document import entered
from benchmarks.comparison.entrant import Entrant
from benchmarks.comparison.plan import Plan
from benchmarks.comparison.postgres import Postgres
from benchmarks.comparison.rounds import Lane
from benchmarks.comparison.spread import Spread
from penstock.bench.errors import BenchFailed
from penstock.bench.live import Live
from penstock.bench.server import Server, machine

MEASUREMENTS = (Lane.free, Lane.held, Lane.single)


async def measure(
    postgres: Postgres, plan: Plan, live: Live, commits: Sequence[Commit], jobs: int
) -> dict[str, Any]:
    """Each round both in turn; the ratios are taken within the rounds."""
    busy, [before, now] = machine(), commits
    entrants = [_entrant(commit, jobs) for commit in commits]
    async with entered(postgres, plan, live, entrants) as lanes:
        await rounds.run(lanes, plan.rounds, live, MEASUREMENTS)
    for entrant in entrants:
        if entrant.fault is not None:
            raise BenchFailed(f"{entrant.facts.name}: {entrant.fault}")
    then, today = (lane.results.measured() for lane in lanes)
    return {
        "before": before.name,
        "now": now.name,
        "jobs": jobs,
        "rounds": plan.rounds,
        "rows": {
            name: _row(then[name], seen)
            for name, seen in today.items()
            if seen and len(seen) == len(then[name])
        },
        **(await Server.of(postgres.admin)).as_dict(),
        "machine": busy,
    }


def _entrant(commit: Commit, jobs: int) -> Entrant:
    entrant = Entrant.asked("penstock", sys.executable, commit.sources)
    entrant.facts = replace(entrant.facts, name=commit.name, jobs=jobs)
    return entrant


def _row(before: Sequence[float], now: Sequence[float]) -> dict[str, Any]:
    ratios = [new / old for old, new in zip(before, now, strict=True)]
    spreads = {"before": before, "now": now, "ratio": ratios}
    return {name: Spread.of(seen).as_dict() for name, seen in spreads.items()}
