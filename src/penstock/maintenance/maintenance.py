"""All maintenance of one worker, put together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from penstock.config import Upkeep
from penstock.events import Events
from penstock.lifecycle import Health, Service
from penstock.maintenance.chore import Expirer, FireSweeper, Sweeper
from penstock.maintenance.elector import Elector
from penstock.maintenance.folder import Folder
from penstock.maintenance.partitions import Partitions
from penstock.maintenance.promoter import Promoter
from penstock.maintenance.rescuer import OvertimeRescuer, Rescuer
from penstock.maintenance.scheduler import Scheduler
from penstock.maintenance.steps import CacheSweeper, EventSweeper, StepSweeper, Waker
from penstock.store import Pool, Store
from penstock.tasks import Timetable


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
    ) -> None:
        self.elector = Elector(
            pool, store, health, events, lease, every=upkeep.election, term=upkeep.term
        )
        self.promoter = Promoter(pool, store, health, self.leads, look_most)
        self.scheduler = Scheduler(
            pool, store, health, self.leads, timetable, look_most, grace=upkeep.schedule_grace
        )
        self.folder = Folder(pool, store, health, self.leads)
        self.elector.on_win = self._begin
        self._led: list[Service] = [
            self.promoter,
            self.scheduler,
            self.folder,
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
            Waker(pool, store, health, self.leads, upkeep.expire),
            Sweeper(pool, store, health, self.leads, upkeep.sweep),
            StepSweeper(pool, store, health, self.leads, 10 * upkeep.sweep),
            EventSweeper(pool, store, health, self.leads, upkeep.sweep),
            FireSweeper(pool, store, health, self.leads, 10 * upkeep.sweep),
            CacheSweeper(
                pool, store, health, self.leads, upkeep.sweep, size=upkeep.step_cache_bytes
            ),
            Partitions(
                pool,
                store,
                health,
                self.leads,
                every=upkeep.partitions,
                ahead=upkeep.partitions_ahead,
            ),
        ]
        self.services: list[Service] = [
            self.elector,
            Rescuer(pool, store, health, events, upkeep.rescue),
            *self._led,
        ]

    def leads(self) -> bool:
        return self.elector.leads

    def _begin(self) -> None:
        for service in self._led:
            service.wake()

    async def stop(self) -> None:
        await asyncio.gather(*(service.stop() for service in self.services))
