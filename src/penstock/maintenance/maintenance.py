"""All maintenance of one worker, put together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from penstock.config import Upkeep
from penstock.events import Events
from penstock.lifecycle import Health, Service
from penstock.maintenance.chore import Expirer, FireSweeper, Sweeper
from penstock.maintenance.elector import MAINTENANCE, ORCHESTRATION, Elector
from penstock.maintenance.folder import Folder
from penstock.maintenance.partitions import Partitions
from penstock.maintenance.promoter import Promoter
from penstock.maintenance.rescuer import OvertimeRescuer, Rescuer
from penstock.maintenance.scheduler import Scheduler
from penstock.maintenance.steps import CacheSweeper, EventSweeper, StepSweeper, Waker
from penstock.maintenance.unserved import UnservedQueues
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
