"""Fires schedules: enqueues their jobs when they are due."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import islice, takewhile

from penstock.lifecycle import DatabaseHealth, Service
from penstock.store import Pool, Store
from penstock.store.schedules import DueSchedules, DueTicks, Firing, ScheduleStatements
from penstock.tasks import Timetable

# The most ticks to fire at once; the next run goes on with the rest.
MAX_TICKS = 100
# Counting is work, and the worker does nothing else meanwhile: a count of this many stands for this
# many or more.
MAX_COUNTED_TICKS = 1_000


def plan_firing(due: DueTicks, now: datetime, grace: float) -> Firing:
    """Return the ticks since the last one that was handled, and when to check again.

    Ticks that are older than the grace period were missed. The last missed tick stands for all of
    them, unless the schedule catches up with each tick.
    """
    rule, since = due.rule, due.done_until
    missed = None
    missed_ticks = 0
    if due.catch_up != "all":
        missed = rule.latest(since, now - timedelta(seconds=grace))
        if missed is not None:
            missed_ticks = rule.count_ticks(since, missed, MAX_COUNTED_TICKS)
            since = missed
    ticks = list(islice(takewhile(lambda tick: tick <= now, rule.after(since)), MAX_TICKS))
    reached = ticks[-1] if len(ticks) == MAX_TICKS else max(now, since)
    return Firing(
        name=due.name,
        version=due.version,
        start=due.start,
        missed=missed,
        missed_ticks=missed_ticks,
        ticks=ticks,
        next_at=next(rule.after(reached)),
    )


logger = logging.getLogger("penstock.schedules")

MAX_SCHEDULES_PER_RUN = 100
# A schedule that is being changed, or fired by another leader, is tried again after this.
BUSY_RETRY_S = 0.2
# A schedule that cannot fire is not tried all the time.
BROKEN_RETRY_S = 30.0


class Scheduler(Service):
    """Sleeps until the next tick, and wakes at once when a schedule changes.

    Every worker writes the schedules that its code declares, but only the leader fires them. The
    leader only saves work: the database lets each tick fire once, whichever worker asks.
    """

    name = "schedules"

    def __init__(
        self,
        pool: Pool,
        store: Store,
        health: DatabaseHealth,
        leads: Callable[[], bool],
        timetable: Timetable,
        max_pause: Callable[[], float],
        *,
        grace: float,
    ) -> None:
        super().__init__(health)
        self._pool = pool
        self._schedules = ScheduleStatements(store)
        self._leads = leads
        self._max_pause = max_pause
        self._grace = grace
        self._timetable = timetable
        self._declared = asyncio.Event()
        self._firing = asyncio.Lock()
        # Until when each of these schedules is left alone.
        self._paused_until: dict[str, float] = {}
        self._broken: dict[str, str] = {}

    def note_change(self) -> None:
        """Note that a schedule has changed. A schedule that could not fire may be able to now."""
        self._paused_until.clear()
        self.wake()

    async def wait_until_declared(self, seconds: float) -> None:
        """Wait until the code's schedules are in the database, or for these seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._declared.wait()

    async def tick(self) -> float:
        await self._declare()
        if not self._leads():
            return self._max_pause()
        look = await self.fire()
        if look.due:
            return 0
        waits = [
            self._max_pause(),
            *(until - time.monotonic() for until in self._paused_until.values()),
        ]
        if look.next_in is not None:
            waits.append(look.next_in)
        return max(min(waits), 0.001)

    async def fire(self) -> DueSchedules:
        """Fire the schedules that are due, up to a limit.

        Return them, and when more will be due.
        """
        async with self._firing:
            look = await self._schedules.due(
                self._pool, MAX_SCHEDULES_PER_RUN, self._paused_names()
            )
            await self._fire_ticks(list(self._plan_firings(look)))
        return look

    async def _declare(self) -> None:
        if self._declared.is_set():
            return
        if self._timetable:
            names = await self._schedules.sync(self._pool, list(self._timetable))
            if names:
                logger.info(
                    "The schedules that the code declares were stored: %s.", ", ".join(names)
                )
        self._declared.set()

    def _plan_firings(self, look: DueSchedules) -> Iterable[Firing]:
        for due in look.due:
            try:
                yield plan_firing(due, look.now, self._grace)
            except Exception as error:  # such as a time zone that this machine does not know
                self._pause_schedule(due.name, f"{type(error).__name__}: {error}")

    async def _fire_ticks(self, firings: list[Firing]) -> None:
        if not firings:
            return
        for name, answer in (await self._schedules.fire(self._pool, firings)).items():
            if answer == "fired":
                self._broken.pop(name, None)
            else:
                self._pause_schedule(name, None if answer == "busy" else answer)

    def _pause_schedule(self, name: str, why: str | None) -> None:
        self._paused_until[name] = time.monotonic() + (
            BUSY_RETRY_S if why is None else BROKEN_RETRY_S
        )
        if why is not None and self._broken.get(name) != why:
            # Once per error, not once per try.
            self._broken[name] = why
            logger.error("The schedule %s cannot fire and will be tried again: %s", name, why)

    def _paused_names(self) -> list[str]:
        now = time.monotonic()
        self._paused_until = {
            name: until for name, until in self._paused_until.items() if until > now
        }
        return list(self._paused_until)
