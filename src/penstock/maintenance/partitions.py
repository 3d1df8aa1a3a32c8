"""History partitions: built ahead by any worker, removed by the leader when their day has passed.

Neither may ever make a settle wait. Attaching waits for nobody; detaching concurrently waits only
for readers, and gives up after a moment to try again at the next tick.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import asyncpg

from penstock.lifecycle import Health, Service
from penstock.store import Connection, Pool, Store, connect, failures

logger = logging.getLogger("penstock.partitions")

LOCK_TIMEOUT = "50ms"
TRY_AGAIN = 60.0


class Partitions(Service):
    """Keeps the partitions of the history from a few days ago to the longest retention ahead."""

    name = "partitions"

    def __init__(
        self,
        url: str,
        pool: Pool,
        store: Store,
        health: Health,
        leads: Callable[[], bool],
        *,
        every: float,
        ahead: int,
    ) -> None:
        super().__init__(health)
        self._url = url
        self._pool = pool
        self._store = store
        self._leads = leads
        self._every = every
        self._ahead = ahead

    async def tick(self) -> float:
        try:
            made = await self._store.ensure_partitions(self._pool, self._ahead)
        except asyncpg.LockNotAvailableError:
            return TRY_AGAIN
        if made:
            logger.info("%d partitions of the history were made ahead.", made)
        if self._leads() and not await self.remove_expired():
            return TRY_AGAIN
        return self._every

    async def remove_expired(self) -> bool:
        """Detach and drop the partitions whose day has passed; False if one is still in use."""
        expired = await self._store.expired_partitions(self._pool)
        if not expired:
            return True
        # DETACH CONCURRENTLY runs in no transaction: its limit is set on a connection of its own.
        connection = await connect(self._url, name="penstock partitions")
        try:
            await connection.execute(f"SET lock_timeout = '{LOCK_TIMEOUT}'")
            return all([await self._remove(connection, steps) for steps in expired])
        finally:
            await connection.close()

    async def _remove(self, connection: Connection, steps: tuple[str, ...]) -> bool:
        try:
            for step in steps:
                await connection.execute(step)
        except asyncpg.PostgresError as error:
            if failures.is_passing(error):
                return False
            raise
        return True
