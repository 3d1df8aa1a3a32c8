"""The lifecycle that all background services of a worker share.

A service defines `tick`, which does a piece of work and says when to do the next. This module
starts, stops and wakes services, handles their errors, and backs off.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any

from penstock.errors import LeaseLost
from penstock.store import Pool, errors
from penstock.telemetry import DatabaseBack, DatabaseGone, Events

logger = logging.getLogger("penstock")

MIN_BACKOFF_S = 0.1
MAX_BACKOFF_S = 5.0
# A service that is stopped has FINISH_S to finish its tick, then CANCEL_S to end once cancelled.
FINISH_S = 1.0
CANCEL_S = 0.5


async def wait_at_most(
    seconds: float, work: Coroutine[Any, Any, object], *, cancel: float = CANCEL_S
) -> bool:
    """Wait up to `seconds` for work, and return whether it has ended. Raises what the work raises.

    `asyncio.timeout` waits until the work that it cancels has ended, which takes asyncpg minutes
    while the database is frozen. This function cancels work that takes too long, waits `cancel`
    seconds for it to end, and then abandons it.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait([task], timeout=max(seconds, 0.0))
    except BaseException:
        task.add_done_callback(_retrieve_exception)
        task.cancel()
        raise
    if task.done():
        task.result()
        return True
    await cancel_and_leave(task, seconds=cancel)
    return False


async def cancel_and_leave(*tasks: asyncio.Future[Any], seconds: float = CANCEL_S) -> None:
    """Cancel tasks and wait up to `seconds` for them to end. Abandon those that do not."""
    for task in tasks:
        task.add_done_callback(_retrieve_exception)
        task.cancel()
    await asyncio.wait(tasks, timeout=seconds)


def _retrieve_exception(task: asyncio.Future[Any]) -> None:
    """Retrieve the task's exception, because asyncio logs exceptions that nobody retrieves."""
    if not task.cancelled():
        task.exception()


class DatabaseHealth:
    """Knows whether the database serves this process. Logs once when an outage begins and ends.

    An outage begins when the first service cannot reach the database, or finds that the database
    refuses all writes. The outage ends when every service that failed has succeeded again. Other
    services do not count, because they may have had nothing to ask the database. Connections of
    `pool` are dropped when the server is read-only.
    """

    def __init__(self, events: Events, pool: Pool | None = None) -> None:
        self._events = events
        self._pool = pool
        self._failing: set[str] = set()
        self._gone_at = 0.0
        self._reached = asyncio.Event()
        # Called when a statement finds a partition of the history missing. Upkeep then makes it.
        self.on_partition_missing: Callable[[], None] = lambda: None

    def report_outage(self, service: str, error: BaseException) -> None:
        if not self._failing:
            self._gone_at = time.monotonic()
            problem = "does not answer" if errors.is_lost(error) else "takes no writes"
            cause = errors.cause(error)
            self._events.emit(DatabaseGone(service, cause))
            logger.warning("The database %s (%s: %s); trying again.", problem, service, cause)
        self._failing.add(service)
        self._reached.clear()

    def report_recovery(self, service: str) -> None:
        if service in self._failing:
            self._failing.remove(service)
            self._reached.set()
            if not self._failing:
                seconds = time.monotonic() - self._gone_at
                logger.warning("The database answers again after %.1f s.", seconds)
                self._events.emit(DatabaseBack(seconds))

    def end_pauses(self) -> None:
        """Let all services that wait for the database try again now, as it may be back."""
        self._reached.set()
        self._reached.clear()

    async def recover_from(self, error: BaseException) -> None:
        """Remove the cause of an error, if that is possible.

        Connections to a read-only server are dropped, because after a failover they would stay
        connected to the old server. A missing partition of the history is made.
        """
        if self._pool is not None and errors.is_read_only(error):
            await self._pool.expire_connections()
        if errors.is_partition_missing(error):
            self.on_partition_missing()

    async def pause(self, seconds: float) -> None:
        """Wait before another try. The wait ends early once a service reaches the database."""
        try:
            async with asyncio.timeout(seconds):
                await self._reached.wait()
        except TimeoutError:
            pass


class Service(ABC):
    """Runs `tick` again and again: each tick does a piece of work and says when the next is due.

    A tick that raises is repeated after a backoff of up to 5 seconds.
    """

    name: str
    finish_within: float = FINISH_S

    def __init__(self, health: DatabaseHealth) -> None:
        self.health = health
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._resting = asyncio.Event()
        self._resting.set()
        self._reported: str | None = None

    @abstractmethod
    async def tick(self) -> float:
        """Do one piece of work, and return how many seconds to wait before the next tick."""

    def wake(self) -> None:
        """Tick now, without waiting for the time at which the next tick is due."""
        self._woken.set()

    @property
    def is_woken(self) -> bool:
        """Whether the service was woken and its next tick has not begun."""
        return self._woken.is_set()

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"penstock {self.name}")

    async def stop(self) -> None:
        """Wait up to `finish_within` seconds for the present tick, then cancel it.

        A statement that is cancelled may or may not have been carried out.
        """
        task, self._task = self._task, None
        if task is None:
            return
        try:
            async with asyncio.timeout(self.finish_within):
                await self._resting.wait()
        except TimeoutError:
            pass
        finally:
            task.cancel()
        await cancel_and_leave(task)

    async def _run(self) -> None:
        backoff = MIN_BACKOFF_S
        has_retried = False
        while not errors.cancels():
            self._woken.clear()
            try:
                delay = await self._tick()
                backoff = MIN_BACKOFF_S
                self._reported = None
                has_retried = False
                self.health.report_recovery(self.name)
            except Exception as error:
                errors.raise_if_cancelled(error)
                await self.health.recover_from(error)
                if _is_connection_error(error) and not has_retried:
                    # One of several connections has failed. If the database is up, another works.
                    has_retried = True
                    await asyncio.sleep(0)
                    continue
                self._report(error)
                await self._back_off(error, backoff * (0.5 + random.random() / 2))
                backoff = min(backoff * 2, MAX_BACKOFF_S)
                continue
            await self._rest(delay)

    async def _tick(self) -> float:
        self._resting.clear()
        try:
            return await self.tick()
        finally:
            self._resting.set()

    async def _back_off(self, error: Exception, seconds: float) -> None:
        if errors.is_unavailable(error):
            await self.health.pause(seconds)
        else:
            await asyncio.sleep(seconds)

    async def _rest(self, delay: float) -> None:
        if delay <= 0:
            await asyncio.sleep(0)
            return
        try:
            async with asyncio.timeout(delay):
                await self._woken.wait()
        except TimeoutError:
            pass

    def _report(self, error: Exception) -> None:
        if errors.is_unavailable(error):
            self.health.report_outage(self.name, error)
        elif isinstance(error, LeaseLost):
            logger.info("%s waits for a new lease.", self.name.capitalize())
        elif repr(error) != self._reported:
            # Each error is logged once, not at every try.
            self._reported = repr(error)
            logger.exception("%s failed and will be tried again.", self.name.capitalize())


def _is_connection_error(error: Exception) -> bool:
    return errors.is_lost(error) or errors.is_read_only(error)


class ScanBudget:
    """Limits costly scans to a twentieth of the time, however long each of them takes.

    Run each scan in `with budget:`, then wait `budget.pause` seconds before the next scan. The
    pause depends on the shorter of the last two scans, because a scan that was slow only while the
    database could not be reached must not delay the next scan.
    """

    PAUSE_FACTOR = 20

    def __init__(self, min_pause: float) -> None:
        self._min_pause = min_pause
        self._began = 0.0
        self._last = 0.0
        self._previous = 0.0

    def __enter__(self) -> ScanBudget:
        self._began = time.monotonic()
        return self

    def __exit__(self, *exc: object) -> None:
        self._previous, self._last = self._last, time.monotonic() - self._began

    @property
    def pause(self) -> float:
        """The seconds to wait before the next scan."""
        return max(self._min_pause, self.PAUSE_FACTOR * self.cost)

    @property
    def cost(self) -> float:
        """How many seconds a scan takes: the shorter of the last two."""
        return min(self._last, self._previous)
