"""Measure the highest rate that one client can reach: a bare loop that claims and settles.

The loop calls no handlers. The bench runs it in a process of its own, as
`python -m penstock.bench.ceiling`.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import asyncpg

from penstock import hosts
from penstock.bench.measured import BenchParent, BenchReady, Meter, send
from penstock.store import Store
from penstock.store.connection import Connection
from penstock.worker.processes import run

CLAIM_SIZE = 500
LEASE_S = 3600.0

Rows = list[asyncpg.Record]


class BareLoop:
    """Claim 500 jobs after the cursor, settle them as completed, and repeat until none is left."""

    def __init__(self, schema: str, claims: Connection, settles: Connection) -> None:
        self._store = Store(schema)
        self._claims = claims
        self._settles = settles
        self._cursor = (datetime(2000, 1, 1, tzinfo=UTC), 0)
        self._lease: int | None = None
        self.settled = 0

    async def open(self) -> None:
        self._lease = await self._store.open_lease(self._claims, "ceiling", LEASE_S, {})

    async def run(self) -> None:
        """Claim and settle in turn: each claim waits for the settle before it."""
        while rows := await self.claim():
            await self.settle(rows)

    async def run_overlapped(self) -> None:
        """Claim the next jobs while the last ones are being settled."""
        rows = await self.claim()
        while rows:
            rows, _ = await asyncio.gather(self.claim(), self.settle(rows))

    async def claim(self) -> Rows:
        ready_at, job = self._cursor
        rows: Rows = await self._claims.fetch(
            self._store.call("claim"),
            self._lease, "default", [""], [0], [ready_at], [job], [CLAIM_SIZE], CLAIM_SIZE,
            '{"commit": "async"}',
        )  # fmt: skip
        if rows:
            self._cursor = max((row["ready_at"], row["id"]) for row in rows)
        return rows

    async def settle(self, rows: Rows) -> None:
        nothing: list[Any] = [None] * 7
        await self._settles.fetch(
            self._store.call("settle"),
            [row["id"] for row in rows], [row["token"] for row in rows], *nothing,
            '{"durable": true}',
        )  # fmt: skip
        self.settled += len(rows)


async def main() -> None:
    parent = await BenchParent.connect()
    orders = await parent.read_orders()
    first, second = [await hosts.connect(orders.url) for _ in range(2)]
    loop = BareLoop(orders.schema, claims=first, settles=second if orders.overlapped else first)
    await loop.open()
    send(BenchReady())
    await parent.wait_for_go()
    meter = Meter(lambda: loop.settled)
    watching = asyncio.create_task(meter.watch())
    await (loop.run_overlapped() if orders.overlapped else loop.run())
    watching.cancel()
    finished = meter.finish()
    await parent.wait_for_stop()
    await first.close()
    await second.close()
    send(finished)


if __name__ == "__main__":
    run(main())
