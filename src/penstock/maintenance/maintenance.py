"""The maintenance services of a worker, and the election of a leader for each role."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from penstock.config import Upkeep
from penstock.lifecycle import DatabaseHealth, Service
from penstock.maintenance.batches import BatchFold
from penstock.maintenance.chores import (
    CacheSweeper,
    EventSweeper,
    Expirer,
    FireSweeper,
    HistorySweeper,
    OvertimeRescuer,
    Rescuer,
    StepSweeper,
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
# Schedules, batches, steps and events. Workers of the version before know nothing of them: while
# one of those leads the maintenance, schedules fire all the same.
ORCHESTRATION = "orchestration"


class Elector(Service):
    """Stands for election at intervals. A leader that stops standing loses its role."""

    def __init__(
        self,
        pool: Pool,
        store: Store,
        health: DatabaseHealth,
        events: Events,
        lease: Callable[[], Awaitable[int]],
        role: str,
        *,
        interval: float,
        term: float,
    ) -> None:
        super().__init__(health)
        self.name = f"election ({role})"
        self._role = role
        self._pool = pool
        self._store = store
        self._events = events
        self._lease = lease
        self._interval = interval
        self._term = term
        self.leads = False
        self._leading_lease = 0
        self.on_election: Callable[[], None] = lambda: None

    async def tick(self) -> float:
        lease = await self._lease()
        leads = await self._store.elect(self._pool, self._role, lease, self._term)
        self._set_leading(leads, lease)
        return self._interval

    def _report(self, error: Exception) -> None:
        # Report first that this service failed: those that rest without a leader do not end an
        # outage.
        super()._report(error)
        # A term that cannot be renewed must be taken for lost. Two leaders would do no harm, but
        # why have them.
        self._set_leading(False, self._leading_lease)

    def _set_leading(self, leads: bool, lease: int) -> None:
        if leads == self.leads:
            return
        self.leads, self._leading_lease = leads, lease
        logger.info("This worker %s the %s.", "leads" if leads else "no longer leads", self._role)
        self._events.emit(LeaderChanged(lease, leads, self._role))
        if leads:
            self.on_election()


class Maintenance:
    """The services that keep the queues in order."""

    def __init__(
        self,
        pool: Pool,
        store: Store,
        health: DatabaseHealth,
        events: Events,
        lease: Callable[[], Awaitable[int]],
        timetable: Timetable,
        upkeep: Upkeep,
        *,
        max_pause: Callable[[], float],
        before_rescue: Callable[[], Awaitable[None]],
    ) -> None:
        self.maintenance_elector, self.orchestration_elector = (
            Elector(
                pool, store, health, events, lease, role, interval=upkeep.election, term=upkeep.term
            )
            for role in (MAINTENANCE, ORCHESTRATION)
        )
        self.promoter = Promoter(pool, store, health, self.leads, max_pause)
        self.scheduler = Scheduler(
            pool,
            store,
            health,
            self.leads_orchestration,
            timetable,
            max_pause,
            grace=upkeep.schedule_grace,
        )
        self.folder = BatchFold(pool, store, health, self.leads_orchestration)
        self.waker = Waker(pool, store, health, self.leads_orchestration, upkeep.expire)
        partitions = Partitions(
            pool,
            store,
            health,
            self.leads,
            interval=upkeep.partitions,
            ahead=upkeep.partitions_ahead,
        )
        health.on_partition_missing = partitions.wake
        self._maintenance_services: list[Service] = [
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
            HistorySweeper(pool, store, health, self.leads, upkeep.sweep),
            UnservedQueues(pool, store, health, self.leads, upkeep.unserved),
            partitions,
        ]
        self._orchestration_services: list[Service] = [
            self.scheduler,
            self.folder,
            self.waker,
            StepSweeper(pool, store, health, self.leads_orchestration, 10 * upkeep.sweep),
            EventSweeper(pool, store, health, self.leads_orchestration, upkeep.sweep),
            FireSweeper(pool, store, health, self.leads_orchestration, 10 * upkeep.sweep),
            CacheSweeper(
                pool,
                store,
                health,
                self.leads_orchestration,
                upkeep.sweep,
                size=upkeep.step_cache_bytes,
            ),
        ]
        self.maintenance_elector.on_election = partial(_wake, self._maintenance_services)
        self.orchestration_elector.on_election = partial(_wake, self._orchestration_services)
        self.rescuer = Rescuer(
            pool, store, health, events, upkeep.rescue, before_rescue=before_rescue
        )
        self.services: list[Service] = [
            self.maintenance_elector,
            self.orchestration_elector,
            self.rescuer,
            *self._maintenance_services,
            *self._orchestration_services,
        ]

    def leads(self) -> bool:
        return self.maintenance_elector.leads

    def leads_orchestration(self) -> bool:
        """Return whether this worker leads schedules, batches, steps and events."""
        return self.orchestration_elector.leads

    def never_lead(self) -> None:
        """Stand for no election. Call this before the services start."""
        electors = (self.maintenance_elector, self.orchestration_elector)
        self.services = [service for service in self.services if service not in electors]

    def elect(self) -> None:
        """Stand for election at once, because a leader has gone."""
        self.maintenance_elector.wake()
        self.orchestration_elector.wake()

    async def stop(self) -> None:
        await asyncio.gather(*(service.stop() for service in self.services))


def _wake(services: Sequence[Service]) -> None:
    for service in services:
        service.wake()
