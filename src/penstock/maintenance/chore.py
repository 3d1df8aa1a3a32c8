"""A chore: some upkeep in small helpings, done by the leader alone, within its budget of time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

from penstock.lifecycle import Budget, Health, Service
from penstock.store import Pool, Store
from penstock.store.schedules import Schedules

LIMIT = 1000


class Chore(Service):
    """What every led service has in common: it rests while another worker leads."""

    def __init__(
        self, pool: Pool, store: Store, health: Health, leads: Callable[[], bool], every: float
    ) -> None:
        super().__init__(health)
        self._pool = pool
        self._store = store
        self._leads = leads
        self._every = every
        self._budget = Budget(every)

    @abstractmethod
    async def work(self) -> int:
        """Do one helping, at most LIMIT of whatever it is: how many there were."""

    async def tick(self) -> float:
        if not self._leads():
            return self._every
        with self._budget:
            done = await self.work()
        return 0 if done >= LIMIT else self._budget.rest


class Expirer(Chore):
    """Ends jobs whose deadline passed before anybody started them."""

    name = "expiry"

    async def work(self) -> int:
        return await self._store.expire(self._pool, LIMIT)


class Sweeper(Chore):
    """Removes dead leases, old keys, and the progress of jobs that are gone."""

    name = "sweep"

    async def work(self) -> int:
        return max((await self._store.sweep(self._pool, LIMIT)).values())


class FireSweeper(Chore):
    """Forgets what came of old ticks of schedules."""

    name = "sweep of schedules"

    async def work(self) -> int:
        return await Schedules(self._store).sweep(self._pool, LIMIT)
