"""A drain, seen from outside."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.comparison.entrant import Entrant
from benchmarks.comparison.environment import ROOT
from benchmarks.comparison.orders import Orders
from benchmarks.comparison.postgres import Database, Postgres
from penstock.bench.child import BenchFailed, start_children
from penstock.bench.drain import Timeline, wait_until_all_settled
from penstock.bench.measured import Finished
from penstock.bench.report import LiveLine
from penstock.store.connection import Connection

LOOK_EVERY = 0.002
COMPLETION_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Drain:
    """From the start of the first handler until the peer's own tables say that all is done."""

    jobs: int
    seconds: float
    tenths: tuple[float, ...]  # jobs a second, by the starts of handlers
    worker_cpu_seconds: float
    server_cpu_seconds: float | None
    peak_rss: int

    @property
    def rate(self) -> float:
        return self.jobs / self.seconds

    def ms_per_1000(self, seconds: float) -> float:
        return seconds * 1000 / (self.jobs / 1000)


async def drain(
    postgres: Postgres,
    entrant: Entrant,
    database: Database,
    jobs: int,
    live: LiveLine,
    *,
    processes: int = 1,
) -> Drain:
    """Let workers work off all that is there; refused if the tables tell another story."""
    orders = Orders(database.url, jobs, dict(entrant.settings))
    async with (
        database.connect() as connection,
        start_children(entrant.command("work"), orders, processes, folder=ROOT) as started,
    ):
        before = await postgres.cpu_seconds()
        for child in started:
            await child.go()
        await wait_until_all_settled(started, jobs, lambda done, _: live.progress(done, jobs))
        ended = await _completed(connection, entrant)
        spent = await postgres.spent_since(before)
        finished = [await child.stop() for child in started]
        await _check(connection, entrant, jobs, finished)
    began = min(one.samples[0][0] for one in finished if one.samples)
    return Drain(
        jobs=jobs,
        seconds=ended - began,
        tenths=tuple(Timeline.of(began, [one.samples for one in finished]).tenths()),
        worker_cpu_seconds=sum(one.cpu_seconds for one in finished),
        server_cpu_seconds=spent,
        peak_rss=max(one.peak_rss or 0 for one in finished),
    )


async def _completed(connection: Connection, entrant: Entrant) -> float:
    """When no job was left. Asked for only after the last handler has begun, not to disturb."""
    try:
        async with asyncio.timeout(COMPLETION_SECONDS):
            # Nobody tells when a peer's table is empty.
            while await connection.fetchval(entrant.facts.left):  # noqa: ASYNC110
                await asyncio.sleep(LOOK_EVERY)
    except TimeoutError:
        left = await connection.fetchval(entrant.facts.left)
        raise BenchFailed(f"All handlers have run, but {left} jobs never completed.") from None
    return time.monotonic()


async def _check(
    connection: Connection, entrant: Entrant, jobs: int, finished: Sequence[Finished]
) -> None:
    """Every job is recorded as completed, and ran once."""
    completed = await connection.fetchval(entrant.facts.completed)
    ran = sum(one.samples[-1][1] for one in finished if one.samples)
    if completed != jobs or ran != jobs:
        raise BenchFailed(f"Of {jobs} jobs {completed} are recorded as completed; {ran} ran.")
