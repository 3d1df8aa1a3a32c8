"""How long a job waits for an idle worker: from the call of enqueue to the start of its handler."""

from __future__ import annotations

from benchmarks.comparison.enqueue import paced
from benchmarks.comparison.entrant import Entrant
from benchmarks.comparison.environment import ROOT
from benchmarks.comparison.orders import Orders
from benchmarks.comparison.postgres import Database
from penstock.bench.child import Child, start_children
from penstock.bench.rounds import Latency

A_SECOND = 50.0
# The first calls open connections and prepare statements.
WARM_UP = 20
WITHIN = 30.0


async def pick_up(entrant: Entrant, database: Database, jobs: int) -> Latency:
    """Single jobs at a gentle pace, once a first job has shown that the worker is there."""
    orders = Orders(database.url, settings=dict(entrant.settings), stamped=True)
    async with start_children(entrant.command("work"), orders, folder=ROOT) as [child]:
        await child.go()
        await paced(entrant, database, 1, A_SECOND)
        await _ran(child, 1)
        asked = await paced(entrant, database, WARM_UP + jobs, A_SECOND)
        await _ran(child, 1 + len(asked))
        began = (await child.stop()).stamps
    return Latency.of([began[number] - asked[number] for number in range(WARM_UP, len(asked))])


async def _ran(child: Child, jobs: int) -> None:
    await child.wait_until_settled(jobs, within=WITHIN)
