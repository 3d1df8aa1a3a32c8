"""The measured worker, with the default settings and in a process of its own.

The bench runs it as `python -m penstock.bench.worker`.
"""

from __future__ import annotations

import asyncio
import logging
import os

from penstock import hosts
from penstock.app.app import Penstock
from penstock.bench import tasks
from penstock.bench.measured import (
    BenchParent,
    BenchReady,
    Meter,
    cpu_seconds_of_backends,
    cpu_seconds_of_descendants,
    send,
)
from penstock.worker.processes import run

BACKENDS = """
SELECT pid FROM pg_stat_activity
 WHERE datname = current_database() AND application_name LIKE 'penstock%' AND backend_start >= $1
"""


async def main() -> None:
    parent = await BenchParent.connect()
    orders = await parent.read_orders()
    if orders.children is not None:
        # These jobs die on purpose, so the warnings about them are hidden.
        logging.getLogger("penstock.worker").setLevel(logging.CRITICAL)
    app = Penstock(orders.url, schema=orders.schema, include=[tasks])
    own = await hosts.connect(orders.url)
    began = await own.fetchval("SELECT clock_timestamp()")
    async with app:
        send(BenchReady())
        await parent.wait_for_go()
        worker = app.worker(children=orders.children)
        meter = Meter(lambda: worker.tally.completed)
        async with worker:
            watching = asyncio.create_task(meter.watch())
            await parent.wait_for_stop()
            watching.cancel()
            backends = [row["pid"] for row in await own.fetch(BACKENDS, began)]
            finished = meter.finish(
                server_cpu_seconds=cpu_seconds_of_backends(backends),
                children_cpu_seconds=cpu_seconds_of_descendants(os.getpid()),
                stamps=tasks.stamps,
            )
    await own.close()
    send(finished)


if __name__ == "__main__":
    run(main())
