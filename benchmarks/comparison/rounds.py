"""The rounds: every measurement of every entrant, in rotating order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from benchmarks.comparison import enqueue
from benchmarks.comparison.drain import Drain, drain
from benchmarks.comparison.entrant import Entrant
from benchmarks.comparison.pick_up import pick_up
from benchmarks.comparison.plan import Plan
from benchmarks.comparison.postgres import Database, Postgres
from benchmarks.comparison.results import Results
from penstock.bench.report import LiveLine
from penstock.bench.sandbox import hold_snapshot


@dataclass
class Lane:
    """An entrant on its way through the rounds."""

    entrant: Entrant
    empty: Database  # its tables, nothing in them
    postgres: Postgres
    plan: Plan
    live: LiveLine
    results: Results

    @property
    def jobs(self) -> int:
        return self.plan.jobs(self.entrant.facts.jobs)

    async def single(self) -> None:
        async with self.fresh() as database:
            rate = await enqueue.one_by_one(self.entrant, database, self.plan.single_jobs)
        self.results.single.append(rate)
        self._tell("enqueue one by one", rate)

    async def free(self) -> None:
        async with self._filled() as database:
            self.results.free.append(await self._drain("drain", database))

    def note(self, what: str, one: Drain) -> None:
        """A measurement of another kind, which takes the place of the drain."""
        self.results.free.append(one)
        self._tell(what, one.rate)

    async def held(self) -> None:
        async with self._filled() as database, hold_snapshot(database.url):
            self.results.held.append(await self._drain("drain, held snapshot", database))

    async def two(self) -> None:
        async with self._filled() as database:
            self.results.two.append(await self._drain("drain, two processes", database, 2))

    async def latency(self) -> None:
        async with self.fresh() as database:
            found = await pick_up(self.entrant, database, self.plan.latency_jobs)
        self.results.latency.append(found)
        self.live.result(f"{self.name}: pick-up", f"{found.p50:>10,.2f} ms")

    @property
    def name(self) -> str:
        return self.entrant.facts.name

    @asynccontextmanager
    async def fresh(self) -> AsyncIterator[Database]:
        """A database with the entrant's tables, empty."""
        if not self.plan.copies:
            yield self.empty
            return
        async with self.postgres.database(self.entrant.key, self.empty) as database:
            yield database

    @asynccontextmanager
    async def _filled(self) -> AsyncIterator[Database]:
        async with self.fresh() as database:
            self.results.bulk.append(await enqueue.in_bulk(self.entrant, database, self.jobs))
            await database.tidy()
            yield database

    async def _drain(self, what: str, database: Database, processes: int = 1) -> Drain:
        one = await drain(
            self.postgres, self.entrant, database, self.jobs, self.live, processes=processes
        )
        self._tell(what, one.rate)
        return one

    def _tell(self, what: str, rate: float) -> None:
        self.live.result(f"{self.name}: {what}", f"{rate:>10,.0f} jobs/s")


Measurement = Callable[[Lane], Awaitable[None]]
MEASUREMENTS: Sequence[Measurement] = (
    Lane.single,
    Lane.free,
    Lane.held,
    Lane.two,
    Lane.latency,
)


async def run(
    lanes: Sequence[Lane],
    rounds: int,
    live: LiveLine,
    measurements: Sequence[Measurement] = MEASUREMENTS,
) -> None:
    """One that fails is out, with its reason; the others go on."""
    for number in range(rounds):
        # Nobody is always first, or always after the same neighbour's leftovers.
        turn = number % len(lanes)
        for measurement in measurements:
            for lane in [*lanes[turn:], *lanes[:turn]]:
                if lane.entrant.fault is None:
                    with live.doing(f"round {number + 1} of {rounds}: {lane.name}"):
                        await _attempt(lane, measurement)


async def together(lanes: Sequence[Lane], measurements: Sequence[Measurement]) -> None:
    """All entrants at the same time, where it does not matter how fast they are."""
    for measurement in measurements:
        await asyncio.gather(*(_attempt(lane, measurement) for lane in lanes))


async def _attempt(lane: Lane, measurement: Measurement) -> None:
    with lane.entrant.or_out(lane.live):
        await measurement(lane)
