"""Takes jobs back from workers that are lost, or frozen in a job."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

from penstock.events import Events, JobsRescued
from penstock.lifecycle import Budget, Health, Service
from penstock.maintenance.chore import LIMIT, Chore
from penstock.store import Pool, Store
from penstock.wording import counted

logger = logging.getLogger("penstock.rescue")


class Rescuer(Service):
    """Rescues the jobs of workers whose lease has run out. Every worker does it."""

    name = "rescue"

    def __init__(
        self,
        pool: Pool,
        store: Store,
        health: Health,
        events: Events,
        every: float,
        *,
        before: Callable[[], Awaitable[None]],
    ) -> None:
        """`before` writes what this worker can still write of the jobs that it lost itself."""
        super().__init__(health)
        self._before = before
        self._pool = pool
        self._store = store
        self._events = events
        self._budget = Budget(every)

    async def tick(self) -> float:
        await self._before()
        with self._budget:
            found = await self._store.rescue(self._pool, LIMIT)
        rescued = taken_back(found, self.health)
        tell(self._events, rescued, "of lost workers")
        return 0 if len(rescued) == LIMIT else self._budget.rest


class OvertimeRescuer(Chore):
    """Rescues jobs that outlived their timeout in a worker that still renews its lease."""

    name = "overtime rescue"

    def __init__(
        self,
        pool: Pool,
        store: Store,
        health: Health,
        leads: Callable[[], bool],
        every: float,
        *,
        events: Events,
        grace: float,
    ) -> None:
        super().__init__(pool, store, health, leads, every)
        self._events = events
        self._grace = grace

    async def work(self) -> int:
        found = await self._store.rescue_overtime(self._pool, self._grace, LIMIT)
        rescued = taken_back(found, self.health)
        tell(self._events, rescued, "past the timeout, of workers that could not end them")
        return len(rescued)


def taken_back(found: Sequence[tuple[int, bool | None]], health: Health) -> list[tuple[int, bool]]:
    """The jobs that were taken back. The others lack a partition of the history: ask for it."""
    rescued = [(job, lost) for job, lost in found if lost is not None]
    if len(rescued) < len(found):
        health.on_partition_missing()
    return rescued


def tell(events: Events, rescued: Sequence[tuple[int, bool]], which: str) -> None:
    if rescued:
        failed = sum(lost for _, lost in rescued)
        logger.warning(
            "Took back %s %s; %d failed for good.", counted(len(rescued), "job"), which, failed
        )
        events.emit(JobsRescued(len(rescued), failed))
