"""History partitions: built ahead by any worker, removed by the leader when their day has passed.

Neither may ever make a settle wait. Attaching waits for nobody; detaching concurrently waits only
for readers, and is given up after a moment to be tried again at the next tick.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import asyncpg

from penstock.lifecycle import Health, Service
from penstock.store import Pool, Store, errors

logger = logging.getLogger("penstock.partitions")

# DETACH CONCURRENTLY runs in no transaction, so no setting could limit it that would not stay on
# the connection. It is cancelled from here.
PATIENCE = 1.0
TRY_AGAIN = 60.0


class Partitions(Service):
    """Keeps the partitions of the history from a few days ago to the longest retention ahead."""

    name = "partitions"

    def __init__(
        self,
        pool: Pool,
        store: Store,
        health: Health,
        leads: Callable[[], bool],
        *,
        every: float,
        ahead: int,
    ) -> None:
        super().__init__(health)
        self._pool = pool
        self._store = store
        self._leads = leads
        self._every = every
        self._ahead = ahead
        self._told: str | None = None

    async def tick(self) -> float:
        every = self._every
        try:
            made = await self._store.ensure_partitions(self._pool, self._ahead)
        except asyncpg.LockNotAvailableError:
            return TRY_AGAIN
        except asyncpg.PostgresError as error:
            if not errors.is_state(error, errors.PARTITION_DETACHED):
                raise
            # Who uses it changes; that it is detached is told once.
            if errors.message(error) != self._told:
                self._told = errors.message(error)
                logger.error("%s", errors.with_hint(error))
            every = TRY_AGAIN
        else:
            if made:
                logger.info("%d partitions of the history were made or attached ahead.", made)
                # Whether one cannot be attached is told when nothing else is left to do.
                return 0
            self._told = None
        if self._leads() and not await self.remove_expired():
            return TRY_AGAIN
        return every

    async def remove_expired(self) -> bool:
        """Detach and drop the partitions whose day has passed; False if one is still in use."""
        expired = await self._store.expired_partitions(self._pool)
        return all([await self._remove(steps) for steps in expired])

    async def _remove(self, steps: tuple[str, ...]) -> bool:
        try:
            for step in steps:
                await self._pool.execute(step, timeout=PATIENCE)
        except TimeoutError:
            return False
        except asyncpg.PostgresError as error:
            if errors.is_transient(error):
                return False
            raise
        return True
