"""A worker of the measurement: `python -m benchmarks.micro_batching.worker`, started by it."""

from __future__ import annotations

import asyncio
import time

from penstock import Batch, Item, Penstock, task
from penstock.bench.measured import BenchParent, BenchReady, Meter, send
from penstock.worker.processes import run

BATCH = Batch(size=64, linger=0.05)
CALL_SECONDS = 0.02
CALLS_AT_ONCE = 4
ALONE_AT_ONCE = 100

# When the call of each item began: the items of one call have the same moment.
started: dict[int, float] = {}


@task(name="measured.shared", queue="shared", batch=BATCH)
async def shared(items: list[Item[int]]) -> list[None]:
    """Takes as long for many as for one, like a call to a model."""
    now = time.monotonic()
    started.update((item.value, now) for item in items)
    await asyncio.sleep(CALL_SECONDS)
    return [None for _ in items]


@task(name="measured.alone", queue="alone")
async def alone(item: int) -> None:
    """The same work with a call for each."""
    started[item] = time.monotonic()
    await asyncio.sleep(CALL_SECONDS)


async def main() -> None:
    parent = await BenchParent.connect()
    orders = await parent.read_orders()
    async with Penstock(orders.url, schema=orders.schema, include=[shared, alone]) as app:
        worker = app.worker({"shared": CALLS_AT_ONCE, "alone": ALONE_AT_ONCE})
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
