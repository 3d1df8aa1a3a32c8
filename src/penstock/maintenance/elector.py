"""One leader among all workers, by a row with a term."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from penstock.events import Events, LeaderChanged
from penstock.lifecycle import Health, Service
from penstock.store import Pool, Store

logger = logging.getLogger("penstock.leader")

ROLE = "maintenance"


class Elector(Service):
    """Stands for election again and again; a leader that stops doing so loses its seat."""

    name = "election"

    def __init__(
        self,
        pool: Pool,
        store: Store,
        health: Health,
        events: Events,
        lease: Callable[[], Awaitable[int]],
        *,
        every: float,
        term: float,
    ) -> None:
        super().__init__(health)
        self._pool = pool
        self._store = store
        self._events = events
        self._lease = lease
        self._every = every
        self._term = term
        self.leads = False
        self.on_win: Callable[[], None] = lambda: None

    async def tick(self) -> float:
        lease = await self._lease()
        try:
            leads = await self._store.elect(self._pool, ROLE, lease, self._term)
        except BaseException:
            # What cannot be renewed must be taken for lost; two leaders would do no harm, but why.
            self._become(False, lease)
            raise
        self._become(leads, lease)
        return self._every

    def _become(self, leads: bool, lease: int) -> None:
        if leads == self.leads:
            return
        self.leads = leads
        logger.info("This worker %s the maintenance.", "leads" if leads else "no longer leads")
        self._events.emit(LeaderChanged(lease, leads))
        if leads:
            self.on_win()
