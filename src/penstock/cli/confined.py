"""A pool as one tenant: each statement is a transaction that is set to the tenant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.connect.scope import TenantScope
from penstock.store import Executor, Pool, Store
from penstock.store.drivers.adapter import Adapter, Row


class TenantPool(Adapter):
    """Asks as a tenant, under row level security."""

    manner = "async"

    def __init__(self, pool: Pool, store: Store, tenant: str) -> None:
        self._pool = pool
        self._store = store
        self._tenant = TenantScope(tenant)

    async def fetch(self, query: str, *params: Any) -> Sequence[Row]:
        async def ask(on: Executor) -> Sequence[Row]:
            rows: Sequence[Any] = await on.fetch(query, *params)
            return rows

        return await self._tenant.ask(self._pool, self._store, ask)

    async def is_in_transaction(self) -> bool:
        return False
