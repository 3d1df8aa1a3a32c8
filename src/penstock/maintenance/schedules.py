"""Enqueue what schedules say, when they say it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import islice, takewhile

from penstock.lifecycle import Health, Service
from penstock.store import Pool, Store
from penstock.store.schedules import Due, DueSchedules, Firing, Schedules
from penstock.tasks import Timetable

# At once; the next look goes on with the rest.
MOST_TICKS = 100
# To count is work, and the worker does nothing else meanwhile: so many stand for so many or more.
MOST_COUNTED = 1_000


def firing(due: Due, now: datetime, grace: float) -> Firing:
    """The ticks since the last one up to now, and when to look again.

    Those older than the grace were missed: of these the last one stands for all, unless the
    schedule is to catch up with each.
    """
    rule, since = due.rule, due.done_until
    missed = None
    missed_ticks = 0
    if due.catch_up != "all":
        missed = rule.latest(since, now - timedelta(seconds=grace))
        if missed is not None:
            missed_ticks = rule.count_ticks(since, missed, MOST_COUNTED)
            since = missed
    ticks = list(islice(takewhile(lambda tick: tick <= now, rule.after(since)), MOST_TICKS))
    reached = ticks[-1] if len(ticks) == MOST_TICKS else max(now, since)
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

LIMIT = 100
# What is being changed, or fired by another leader, is looked at again after a moment.
BUSY = 0.2
# What cannot be fired is not tried all the time.
BROKEN = 30.0


class Scheduler(Service):
    """Sleeps until the next tick; told of a change, it looks at once.

    Every worker writes what its code declares; only the leader fires. That it leads saves work, no
    more: the database lets each tick fire once, whoever asks.
    """

    name = "schedules"

    def __init__(
        self,
        pool: Pool,
        store: Store,
        health: Health,
        leads: Callable[[], bool],
        timetable: Timetable,
        most: Callable[[], float],
        *,
        grace: float,
    ) -> None:
        super().__init__(health)
        self._pool = pool
        self._schedules = Schedules(store)
        self._leads = leads
        self._most = most
        self._grace = grace
        self._timetable = timetable
        self._written = asyncio.Event()
        self._firing = asyncio.Lock()
        # Until when to leave which schedule alone.
        self._aside: dict[str, float] = {}
        self._broken: dict[str, str] = {}

    def changed(self) -> None:
        """News of a schedule: also of one that could not fire, and may have been mended."""
        self._aside.clear()
        self.wake()

    async def written(self, seconds: float) -> None:
        """Wait until what the code declares is in the database, or for so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._written.wait()

    async def tick(self) -> float:
        await self._declare()
        if not self._leads():
            return self._most()
        look = await self.fire()
        if look.due:
            return 0
        waits = [self._most(), *(until - time.monotonic() for until in self._aside.values())]
        if look.next_in is not None:
            waits.append(look.next_in)
        return max(min(waits), 0.001)

    async def fire(self) -> DueSchedules:
        """Fire what is due, up to a limit; what that was, and when there is more."""
        async with self._firing:
            look = await self._schedules.due(self._pool, LIMIT, self._left_alone())
            await self._ask_for(list(self._worked_out(look)))
        return look

    async def _declare(self) -> None:
        if self._written.is_set():
            return
        if self._timetable:
            changed = await self._schedules.sync(self._pool, list(self._timetable))
            if changed:
                logger.info("What the code says of schedules was written: %s.", ", ".join(changed))
        self._written.set()

    def _worked_out(self, look: DueSchedules) -> Iterable[Firing]:
        for due in look.due:
            try:
                yield firing(due, look.now, self._grace)
            except Exception as error:  # such as a time zone that this machine does not know
                self._set_aside(due.name, f"{type(error).__name__}: {error}")

    async def _ask_for(self, firings: list[Firing]) -> None:
        if not firings:
            return
        for name, answer in (await self._schedules.fire(self._pool, firings)).items():
            if answer == "fired":
                self._broken.pop(name, None)
            else:
                self._set_aside(name, None if answer == "busy" else answer)

    def _set_aside(self, name: str, why: str | None) -> None:
        self._aside[name] = time.monotonic() + (BUSY if why is None else BROKEN)
        if why is not None and self._broken.get(name) != why:
            # Once per error, not once per try.
            self._broken[name] = why
            logger.error("The schedule %s cannot fire and will be tried again: %s", name, why)

    def _left_alone(self) -> list[str]:
        now = time.monotonic()
        self._aside = {name: until for name, until in self._aside.items() if until > now}
        return list(self._aside)
