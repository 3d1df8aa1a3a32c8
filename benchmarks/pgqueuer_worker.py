"""PgQueuer's worker as a measured process: one process under uvloop."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver, Driver
from pgqueuer.models import Job
from pgqueuer.queries import Queries
from pgqueuer_settings import Settings

from penstock.bench.measured import Meter, Parent
from penstock.bench.messages import Finished, Orders, Ready, say

stamps: dict[int, float] = {}


class Counted(Queries):
    """PgQueuer's statements; counts the jobs whose end is committed."""

    settled = 0

    async def log_jobs(self, job_status: list[Any]) -> None:
        await super().log_jobs(job_status)
        Counted.settled += len(job_status)


def make(driver: Driver) -> PgQueuer:
    pgq = PgQueuer(driver, queries=Counted(driver))

    @pgq.entrypoint("noop")
    async def noop(job: Job) -> None:
        int(job.payload or b"0")

    @pgq.entrypoint("stamp")
    async def stamp(job: Job) -> None:
        stamps[int(job.payload or b"0")] = time.monotonic()

    return pgq


@asynccontextmanager
async def drivers(orders: Orders, settings: Settings) -> AsyncIterator[list[Driver]]:
    """A driver for each manager; with a pool all share it."""
    search_path = {"search_path": orders.schema}
    if settings.driver == "pool":
        async with asyncpg.create_pool(
            orders.url, min_size=4, max_size=8, server_settings=search_path
        ) as pool:
            yield [AsyncpgPoolDriver(pool) for _ in range(settings.managers)]
        return
    connections = [
        await asyncpg.connect(orders.url, server_settings=search_path)
        for _ in range(settings.managers)
    ]
    yield [AsyncpgDriver(connection) for connection in connections]
    for connection in connections:
        await connection.close()


async def work(parent: Parent, managers: list[PgQueuer], batch: int) -> Finished:
    meter = Meter(lambda: Counted.settled)
    # Without the periodic statistics, which only its dashboard reads.
    working = [
        asyncio.create_task(
            pgq.run(
                batch_size=batch,
                dequeue_timeout=timedelta(seconds=1),
                log_aggregation_interval=timedelta(0),
            )
        )
        for pgq in managers
    ]
    watching = asyncio.create_task(meter.watch())
    await parent.stop()
    watching.cancel()
    finished = meter.finished(stamps=stamps)
    for pgq in managers:
        pgq.shutdown.set()
    await asyncio.gather(*working)
    return finished


async def main() -> None:
    driver, batch, managers = sys.argv[1:]
    settings = Settings("pool" if driver == "pool" else "connection", int(batch), int(managers))
    parent = await Parent.connect()
    orders = await parent.orders()
    async with drivers(orders, settings) as opened:
        made = [make(driver) for driver in opened]
        say(Ready())
        await parent.go()
        finished = await work(parent, made, settings.batch)
    say(finished)


if __name__ == "__main__":
    uvloop.run(main())
