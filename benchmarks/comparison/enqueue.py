"""Jobs enqueued by a peer's client, in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.comparison.entrant import Entrant
from benchmarks.comparison.environment import ROOT
from benchmarks.comparison.orders import Orders
from benchmarks.comparison.postgres import Database
from penstock.bench.child import start_children

WARM_UP = 20
LONGEST = 600.0


async def install(entrant: Entrant, database: Database) -> None:
    """Make the peer's tables in an empty database."""
    await _told(entrant, "install", Orders(database.url))


async def in_bulk(entrant: Entrant, database: Database, jobs: int) -> float:
    """Jobs a second, by the quickest way that the peer offers."""
    times = await _told(entrant, "enqueue-many", Orders(database.url, jobs))
    return jobs / (times[jobs] - times[0])


async def one_by_one(entrant: Entrant, database: Database, jobs: int) -> float:
    """Jobs a second, each durable before the next is sent."""
    orders = Orders(database.url, jobs, warm_up=WARM_UP)
    times = await _told(entrant, "enqueue", orders)
    return jobs / (times[jobs] - times[0])


async def paced(
    entrant: Entrant, database: Database, jobs: int, a_second: float
) -> Mapping[int, float]:
    """When each job was asked for."""
    times = await _told(entrant, "enqueue", Orders(database.url, jobs, pace=a_second))
    return {number: at for number, at in times.items() if number < jobs}


async def _told(entrant: Entrant, role: str, orders: Orders) -> Mapping[int, float]:
    async with start_children(entrant.command(role), orders, folder=ROOT) as [child]:
        await child.go()
        return (await child.stop(within=LONGEST)).stamps
