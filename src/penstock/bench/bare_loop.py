"""Claims and settles without handlers: what Postgres itself gives one client."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import asyncpg

from penstock.store import Store
from penstock.store.connection import Connection

CLAIM = 500
LEASE_SECONDS = 3600.0

Rows = list[asyncpg.Record]


class BareLoop:
    """Claims 500 jobs from the mark on and settles them all as completed, until there are none."""

    def __init__(self, schema: str, claims: Connection, settles: Connection) -> None:
        self._store = Store(schema)
        self._claims = claims
        self._settles = settles
        self._mark = (datetime(2000, 1, 1, tzinfo=UTC), 0)
        self._lease: int | None = None
        self.settled = 0

    async def open(self) -> None:
        self._lease = await self._store.open_lease(self._claims, "ceiling", LEASE_SECONDS, {})

    async def run(self) -> None:
        """One after the other: the next claim begins when the settle is done."""
        while rows := await self.claim():
            await self.settle(rows)

    async def run_overlapped(self) -> None:
        """The next claim is under way during the settle."""
        rows = await self.claim()
        while rows:
            rows, _ = await asyncio.gather(self.claim(), self.settle(rows))

    async def claim(self) -> Rows:
        ready_at, job = self._mark
        rows: Rows = await self._claims.fetch(
            self._store.call("claim"),
            self._lease, "default", [""], [0], [ready_at], [job], [CLAIM], CLAIM,
            '{"commit": "async"}',
        )  # fmt: skip
        if rows:
            self._mark = max((row["ready_at"], row["id"]) for row in rows)
        return rows

    async def settle(self, rows: Rows) -> None:
        nothing: list[Any] = [None] * 7
        await self._settles.fetch(
            self._store.call("settle"),
            [row["id"] for row in rows], [row["token"] for row in rows], *nothing,
            '{"durable": true}',
        )  # fmt: skip
        self.settled += len(rows)
