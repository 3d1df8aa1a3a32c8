"""Small chores of the leader: deadlines and leftovers."""

from __future__ import annotations

from collections.abc import Callable

from penstock.lifecycle import Budget, Health, Service
from penstock.store import Pool, Store

LIMIT = 1000


class Expirer(Service):
    """Ends jobs whose deadline passed before anybody started them."""

    name = "expiry"

    def __init__(
        self, pool: Pool, store: Store, health: Health, leads: Callable[[], bool], every: float
    ) -> None:
        super().__init__(health)
        self._pool = pool
        self._store = store
        self._leads = leads
        self._every = every
        self._budget = Budget(every)

    async def tick(self) -> float:
        if not self._leads():
            return self._every
        with self._budget:
            expired = await self._store.expire(self._pool, LIMIT)
        return 0 if expired == LIMIT else self._budget.rest


class Sweeper(Service):
    """Removes dead leases, old keys, and the progress of jobs that are gone."""

    name = "sweep"

    def __init__(
        self, pool: Pool, store: Store, health: Health, leads: Callable[[], bool], every: float
    ) -> None:
        super().__init__(health)
        self._pool = pool
        self._store = store
        self._leads = leads
        self._every = every
        self._budget = Budget(every)

    async def tick(self) -> float:
        if not self._leads():
            return self._every
        with self._budget:
            await self._store.sweep(self._pool, LIMIT)
        return self._budget.rest
