"""PgQueuer's worker as a measured process: one process under uvloop, its settings for speed."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import Any

import asyncpg
from pgqueuer import AsyncpgPoolDriver, PgQueuer
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from penstock.bench.loop import run
from penstock.bench.measured import Meter, Parent
from penstock.bench.messages import Ready, say

BATCH = 1000

stamps: dict[int, float] = {}


class Counted(Queries):
    """PgQueuer's statements; counts the jobs whose end is committed."""

    settled = 0

    async def log_jobs(self, job_status: list[Any]) -> None:
        await super().log_jobs(job_status)
        self.settled += len(job_status)


def make(pool: asyncpg.Pool[asyncpg.Record]) -> tuple[PgQueuer, Counted]:
    driver = AsyncpgPoolDriver(pool)
    queries = Counted(driver)
    pgq = PgQueuer(driver, queries=queries)

    @pgq.entrypoint("noop")
    async def noop(job: Job) -> None:
        int(job.payload or b"0")

    @pgq.entrypoint("stamp")
    async def stamp(job: Job) -> None:
        stamps[int(job.payload or b"0")] = time.monotonic()

    return pgq, queries


async def main() -> None:
    parent = await Parent.connect()
    orders = await parent.orders()
    pool = await asyncpg.create_pool(
        orders.url, min_size=4, max_size=8, server_settings={"search_path": orders.schema}
    )
    pgq, queries = make(pool)
    say(Ready())
    await parent.go()
    meter = Meter(lambda: queries.settled)
    # Without the periodic statistics, which only its dashboard reads.
    working = asyncio.create_task(
        pgq.run(
            batch_size=BATCH,
            dequeue_timeout=timedelta(seconds=1),
            log_aggregation_interval=timedelta(0),
        )
    )
    watching = asyncio.create_task(meter.watch())
    await parent.stop()
    watching.cancel()
    finished = meter.finished(stamps=stamps)
    pgq.shutdown.set()
    await working
    await pool.close()
    say(finished)


if __name__ == "__main__":
    run(main)
