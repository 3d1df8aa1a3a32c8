"""Run the statements of live updates. Each reads bounded rows for many subjects at once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeAlias

from penstock.store.batches import Batches
from penstock.store.connection import Executor
from penstock.store.store import Store

Row: TypeAlias = dict[str, Any]


class LiveQueries:
    """Run statements for live updates on the connection of the caller."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def jobs(self, on: Executor, ids: Sequence[int], longest: int) -> list[Row]:
        """Return the jobs that exist, without results of more than `longest` bytes."""
        rows = await on.fetch(self._store.statement("watch_jobs"), list(ids), longest)
        return [dict(row) for row in rows]

    async def batches(self, on: Executor, ids: Sequence[int]) -> list[Row]:
        return await Batches(self._store).get(on, ids)

    async def owners(
        self,
        on: Executor,
        *,
        tenants: Sequence[str] = (),
        users: Sequence[str] = (),
        within: str | None,
        newest: int,
    ) -> list[Row]:
        """Count the newest jobs of tenants and users by state, `within` one tenant or in all."""
        sql, schema = self._store.statement("watch_owners"), self._store.schema
        rows = await on.fetch(sql, list(tenants), list(users), within, newest, schema)
        return [dict(row) for row in rows]

    async def time(self, on: Executor) -> datetime:
        moment: datetime = await on.fetchval(self._store.statement("get_time"))
        return moment
