"""Marks suspects as begun before they begin.

A suspect is a job that was taken from a lost worker, which it may have killed. Only an attempt that
is marked costs its job a loss if this worker is lost, too: what has been fetched and has not begun
pays nothing. Fresh jobs are not marked, so they pay no write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from penstock.lifecycle import Health, Service
from penstock.store import Attempt, Pool, Store

FOR_EVER = 3600.0
BUSY_PAUSE_S = 0.05


class Suspects(Service):
    """The suspects that wait for their mark. Those that come while one write is under way share
    the next."""

    name = "marks of suspects"

    def __init__(self, pool: Pool, store: Store, health: Health) -> None:
        super().__init__(health)
        self._pool = pool
        self._store = store
        self._waiting: dict[Attempt, asyncio.Future[bool]] = {}

    async def mark(self, attempt: Attempt) -> bool:
        """Mark an attempt as begun, if it is a suspect's; False if it has lost its job.

        It waits for the database as long as that takes.
        """
        if not attempt.is_suspect:
            return True
        marked: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting[attempt] = marked
        self.wake()
        try:
            return await marked
        finally:
            del self._waiting[attempt]

    async def mark_all(self, attempts: Iterable[Attempt]) -> list[bool]:
        """Mark attempts as begun; which of them have not lost their jobs, in order."""
        return await asyncio.gather(*(self.mark(attempt) for attempt in attempts))

    async def tick(self) -> float:
        attempts = [one for one, marked in self._waiting.items() if not marked.done()]
        if not attempts:
            return FOR_EVER
        marked, busy = await self._store.mark_begun(self._pool, attempts)
        for attempt in attempts:
            future = self._waiting.get(attempt)
            if future is not None and not future.done() and attempt.token not in busy:
                future.set_result(attempt.token in marked)
        return BUSY_PAUSE_S if busy else FOR_EVER
