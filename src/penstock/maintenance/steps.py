"""The upkeep of what jobs keep and wait for: steps, shared results, events."""

from __future__ import annotations

from collections.abc import Callable

from penstock.lifecycle import Health
from penstock.maintenance.chore import LIMIT, Chore
from penstock.store import Pool, Store
from penstock.store.events import Events
from penstock.store.steps import Steps


class Waker(Chore):
    """Wakes jobs whose time for an event is over, or whose event could not wake them itself."""

    name = "event wake-up"

    async def work(self) -> int:
        return await Events(self._store).wake(self._pool, LIMIT)


class StepSweeper(Chore):
    """Removes the steps of jobs that are gone, some jobs at a time, round and round."""

    name = "step sweep"
    _after = 0

    async def work(self) -> int:
        swept, upto = await Steps(self._store).sweep(self._pool, self._after, LIMIT)
        self._after = upto or 0
        return swept


class EventSweeper(Chore):
    """Removes events whose time is over, and waits of jobs that have ended."""

    name = "event sweep"

    async def work(self) -> int:
        return await Events(self._store).sweep(self._pool, LIMIT)


class CacheSweeper(Chore):
    """Keeps the results that steps share within their time and their size."""

    name = "cache sweep"

    def __init__(
        self,
        pool: Pool,
        store: Store,
        health: Health,
        leads: Callable[[], bool],
        every: float,
        *,
        size: int,
    ) -> None:
        super().__init__(pool, store, health, leads, every)
        self._size = size

    async def work(self) -> int:
        return await Steps(self._store).sweep_cache(self._pool, self._size, LIMIT)
