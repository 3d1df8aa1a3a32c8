"""The upkeep of what jobs keep and wait for: steps, shared results, events."""

from __future__ import annotations

from collections.abc import Callable

from penstock.lifecycle import Health
from penstock.maintenance.chore import LIMIT, Chore
from penstock.store import Pool, Store
from penstock.store.events import Events
from penstock.store.steps import Steps

# While nobody waits, events are looked after less often: so many times the pace.
IDLE = 5
# All results of the cache are added up only each so many times.
SUMS = 10


class Waker(Chore):
    """Wakes jobs whose time for an event is over, or whose event could not wake them itself.

    While nobody waits it looks less often, unless a job of this worker begins to wait.
    """

    name = "event wake-up"
    _after = 0
    _is_idle = False

    def waits(self) -> None:
        """A job waits now."""
        if self._is_idle:
            self.wake()

    async def work(self) -> int:
        woken, upto, next_in = await Events(self._store).wake(self._pool, LIMIT, self._after)
        self._after = upto or 0
        self._is_idle = next_in is None
        return woken if upto is None else LIMIT

    async def tick(self) -> float:
        rest = await super().tick()
        return IDLE * rest if self._is_idle else rest


class Walk(Chore):
    """A chore that goes through a table in helpings, for a twentieth of the time, and then rests
    before it begins again."""

    _after = 0

    async def tick(self) -> float:
        rest = await super().tick()
        is_midway = self._after and self._leads()
        return min(rest, self._budget.SHARE * self._budget.cost) if is_midway else rest


class StepSweeper(Walk):
    """Removes the steps of jobs that are gone."""

    name = "step sweep"

    async def work(self) -> int:
        _, upto = await Steps(self._store).sweep(self._pool, self._after, LIMIT)
        self._after = upto or 0
        return 0


class EventSweeper(Walk):
    """Removes events whose time is over, and what is left of waits of jobs that have ended."""

    name = "event sweep"

    async def work(self) -> int:
        events, upto = await Events(self._store).sweep(self._pool, self._after, LIMIT)
        self._after = upto or 0
        return events


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
        self._excess = 0
        self._times = 0

    async def work(self) -> int:
        is_known = self._excess > 0 or self._times % SUMS > 0
        self._times += self._excess == 0
        done, self._excess = await Steps(self._store).sweep_cache(
            self._pool, self._size, LIMIT, self._excess if is_known else None
        )
        return done
