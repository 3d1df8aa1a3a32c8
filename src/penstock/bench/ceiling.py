"""The ceiling: the same claims and settles in a bare loop, without handlers, in its own process.

Run by the bench as `python -m penstock.bench.ceiling`.
"""

from __future__ import annotations

import asyncio

from penstock import hosts
from penstock.bench.bare_loop import BareLoop
from penstock.bench.measured import Meter, Parent
from penstock.bench.messages import Ready, say
from penstock.worker.processes import run


async def main() -> None:
    parent = await Parent.connect()
    orders = await parent.orders()
    first, second = [await hosts.connect(orders.url) for _ in range(2)]
    loop = BareLoop(orders.schema, claims=first, settles=second if orders.overlapped else first)
    await loop.open()
    say(Ready())
    await parent.go()
    meter = Meter(lambda: loop.settled)
    watching = asyncio.create_task(meter.watch())
    await (loop.run_overlapped() if orders.overlapped else loop.run())
    watching.cancel()
    finished = meter.finished()
    await parent.stop()
    await first.close()
    await second.close()
    say(finished)


if __name__ == "__main__":
    run(main())
