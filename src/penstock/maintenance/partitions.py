"""Partitions of the history: any worker creates them ahead, the leader removes expired ones.

Neither task may ever make a settle wait. Attaching a partition waits for no other transaction.
Detaching a partition concurrently waits only for readers. The leader gives it up after a moment and
retries at the next tick.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import asyncpg

from penstock.lifecycle import DatabaseHealth, Service
from penstock.store import Pool, Store, errors

logger = logging.getLogger("penstock.partitions")

# DETACH CONCURRENTLY runs outside of a transaction, so any setting that limits it would stay on the
# connection. It is cancelled from here instead.
DETACH_TIMEOUT_S = 1.0
RETRY_PAUSE_S = 60.0


class Partitions(Service):
    """Keeps the partitions of the history from a few days ago up to some days ahead."""

    name = "partitions"

    def __init__(
        self,
        pool: Pool,
        store: Store,
        health: DatabaseHealth,
        leads: Callable[[], bool],
        *,
        interval: float,
        ahead: int,
    ) -> None:
        super().__init__(health)
        self._pool = pool
        self._store = store
        self._leads = leads
        self._interval = interval
        self._ahead = ahead
        self._logged_error: str | None = None

    async def tick(self) -> float:
        interval = self._interval
        try:
            made = await self._store.ensure_partitions(self._pool, self._ahead)
        except asyncpg.LockNotAvailableError:
            return RETRY_PAUSE_S
        except asyncpg.PostgresError as error:
            if not errors.is_state(error, errors.PARTITION_DETACHED):
                raise
            # Who uses the partition may change, but that it is detached is logged once.
            if errors.message(error) != self._logged_error:
                self._logged_error = errors.message(error)
                logger.error("%s", errors.with_hint(error))
            interval = RETRY_PAUSE_S
        else:
            if made:
                logger.info(
                    "Partitions of the history were created or attached for the coming days: %d.",
                    made,
                )
                # Whether a partition cannot be attached is reported when nothing else is left to
                # do.
                return 0
            self._logged_error = None
        if self._leads() and not await self.remove_expired():
            return RETRY_PAUSE_S
        return interval

    async def remove_expired(self) -> bool:
        """Detach and drop expired partitions; return False if one is still in use."""
        expired = await self._store.expired_partitions(self._pool)
        return all([await self._remove(steps) for steps in expired])

    async def _remove(self, steps: tuple[str, ...]) -> bool:
        try:
            for step in steps:
                await self._pool.execute(step, timeout=DETACH_TIMEOUT_S)
        except TimeoutError:
            return False
        except asyncpg.PostgresError as error:
            if errors.is_transient(error):
                return False
            raise
        return True
