"""One leader for each role among all workers, by a row with a term."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from penstock.events import Events, LeaderChanged
from penstock.lifecycle import Health, Service
from penstock.store import Pool, Store

logger = logging.getLogger("penstock.leader")

MAINTENANCE = "maintenance"
# What workers of the version before know nothing of: while one of them leads the maintenance,
# schedules fire all the same.
ORCHESTRATION = "orchestration"


class Elector(Service):
    """Stands for election again and again; a leader that stops doing so loses its seat."""

    def __init__(
        self,
        pool: Pool,
        store: Store,
        health: Health,
        events: Events,
        lease: Callable[[], Awaitable[int]],
        role: str,
        *,
        every: float,
        term: float,
    ) -> None:
        super().__init__(health)
        self.name = f"election ({role})"
        self._role = role
        self._pool = pool
        self._store = store
        self._events = events
        self._lease = lease
        self._every = every
        self._term = term
        self.leads = False
        self._led_with = 0
        self.on_win: Callable[[], None] = lambda: None

    async def tick(self) -> float:
        lease = await self._lease()
        leads = await self._store.elect(self._pool, self._role, lease, self._term)
        self._become(leads, lease)
        return self._every

    def _report(self, error: Exception) -> None:
        # First that this service failed: those that rest without a leader do not end an outage.
        super()._report(error)
        # What cannot be renewed must be taken for lost; two leaders would do no harm, but why.
        self._become(False, self._led_with)

    def _become(self, leads: bool, lease: int) -> None:
        if leads == self.leads:
            return
        self.leads, self._led_with = leads, lease
        logger.info("This worker %s the %s.", "leads" if leads else "no longer leads", self._role)
        self._events.emit(LeaderChanged(lease, leads, self._role))
        if leads:
            self.on_win()
