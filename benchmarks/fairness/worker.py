"""A worker of the simulation: `python -m benchmarks.fairness.worker`, started by it."""

from __future__ import annotations

import asyncio
import time

from penstock import Penstock, task
from penstock.bench.measured import BenchParent, BenchReady, Meter, send
from penstock.worker.processes import run

SLOTS = 50
JOB_SECONDS = 0.05

started: dict[int, float] = {}


@task(name="simulation.work", queue="simulation")
async def work(number: int) -> None:
    """Takes its time, like a call to somebody else's server."""
    started[number] = time.monotonic()
    await asyncio.sleep(JOB_SECONDS)


async def main() -> None:
    parent = await BenchParent.connect()
    orders = await parent.read_orders()
    async with Penstock(orders.url, schema=orders.schema, include=[work]) as app:
        worker = app.worker({"simulation": SLOTS})
        meter = Meter(lambda: worker.tally.completed)
        async with worker:
            send(BenchReady())
            await parent.wait_for_go()
            watching = asyncio.create_task(meter.watch())
            await parent.wait_for_stop()
            watching.cancel()
    send(meter.finish(stamps=started))


if __name__ == "__main__":
    run(main())
