"""One leader for each role among all workers, by a row with a term."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from penstock.config import Upkeep
from penstock.lifecycle import Health, Service
from penstock.maintenance.batches import Folder
from penstock.maintenance.chores import (
    CacheSweeper,
    EventSweeper,
    Expirer,
    FireSweeper,
    OvertimeRescuer,
    Rescuer,
    StepSweeper,
    Sweeper,
    UnservedQueues,
    Waker,
)
from penstock.maintenance.partitions import Partitions
from penstock.maintenance.promotion import Promoter
from penstock.maintenance.schedules import Scheduler
from penstock.store import Pool, Store
from penstock.tasks import Timetable
from penstock.telemetry import Events, LeaderChanged

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


class Maintenance:
    """The services that keep the queue in order."""

    def __init__(
        self,
        pool: Pool,
        store: Store,
        health: Health,
        events: Events,
        lease: Callable[[], Awaitable[int]],
        timetable: Timetable,
        upkeep: Upkeep,
        *,
        look_most: Callable[[], float],
        before_rescue: Callable[[], Awaitable[None]],
    ) -> None:
        self.elector, self.director = (
            Elector(
                pool, store, health, events, lease, role, every=upkeep.election, term=upkeep.term
            )
            for role in (MAINTENANCE, ORCHESTRATION)
        )
        self.promoter = Promoter(pool, store, health, self.leads, look_most)
        self.scheduler = Scheduler(
            pool, store, health, self.directs, timetable, look_most, grace=upkeep.schedule_grace
        )
        self.folder = Folder(pool, store, health, self.directs)
        self.waker = Waker(pool, store, health, self.directs, upkeep.expire)
        partitions = Partitions(
            pool, store, health, self.leads, every=upkeep.partitions, ahead=upkeep.partitions_ahead
        )
        health.on_partition_missing = partitions.wake
        self._led: list[Service] = [
            self.promoter,
            OvertimeRescuer(
                pool,
                store,
                health,
                self.leads,
                upkeep.overtime,
                events=events,
                grace=upkeep.overtime_grace,
            ),
            Expirer(pool, store, health, self.leads, upkeep.expire),
            Sweeper(pool, store, health, self.leads, upkeep.sweep),
            UnservedQueues(pool, store, health, self.leads, upkeep.unserved),
            partitions,
        ]
        self._directed: list[Service] = [
            self.scheduler,
            self.folder,
            self.waker,
            StepSweeper(pool, store, health, self.directs, 10 * upkeep.sweep),
            EventSweeper(pool, store, health, self.directs, upkeep.sweep),
            FireSweeper(pool, store, health, self.directs, 10 * upkeep.sweep),
            CacheSweeper(
                pool, store, health, self.directs, upkeep.sweep, size=upkeep.step_cache_bytes
            ),
        ]
        self.elector.on_win = partial(_wake, self._led)
        self.director.on_win = partial(_wake, self._directed)
        self.rescuer = Rescuer(pool, store, health, events, upkeep.rescue, before=before_rescue)
        self.services: list[Service] = [
            self.elector,
            self.director,
            self.rescuer,
            *self._led,
            *self._directed,
        ]

    def leads(self) -> bool:
        return self.elector.leads

    def directs(self) -> bool:
        """Whether this worker leads what the version before it did not know."""
        return self.director.leads

    def stand_back(self) -> None:
        """Lead nothing, from the start."""
        leading = (self.elector, self.director)
        self.services = [each for each in self.services if each not in leading]

    def elect(self) -> None:
        """A leader has gone: stand for election at once."""
        self.elector.wake()
        self.director.wake()

    async def stop(self) -> None:
        await asyncio.gather(*(service.stop() for service in self.services))


def _wake(services: Sequence[Service]) -> None:
    for service in services:
        service.wake()
