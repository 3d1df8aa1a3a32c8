"""One lifecycle for everything that runs beside the jobs.

A service says what to do and when to do it next; starting, stopping, waking, errors and backing
off are written here once.
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

BACKOFF_FIRST = 0.1
BACKOFF_LAST = 5.0
# What is under way when a service is stopped may take so long to finish, and then to be cancelled.
FINISH = 1.0
CANCEL = 0.5


async def at_most(
    seconds: float, work: Coroutine[Any, Any, object], *, cancel: float = CANCEL
) -> bool:
    """Wait for work, at most these seconds; whether it has ended. Raises what the work raises.

    `asyncio.timeout` waits until what it cancels has ended, which takes asyncpg minutes while the
    database is frozen. Work that takes too long is cancelled here, has the seconds of `cancel` to
    end, and is left alone if it goes on.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait([task], timeout=max(seconds, 0.0))
    except BaseException:
        task.add_done_callback(_look_at)
        task.cancel()
        raise
    if task.done():
        task.result()
        return True
    await leave_behind(task, seconds=cancel)
    return False


async def leave_behind(*tasks: asyncio.Future[Any], seconds: float = CANCEL) -> None:
    """Cancel tasks, and wait a moment for them to end; those that do not are left alone."""
    for task in tasks:
        task.add_done_callback(_look_at)
        task.cancel()
    await asyncio.wait(tasks, timeout=seconds)


def _look_at(task: asyncio.Future[Any]) -> None:
    """Nobody asks for its error any more, and asyncio would complain."""
    if not task.cancelled():
        task.exception()


class Health:
    """Whether the database serves us. Says so once when it stops, and once when it serves again.

    An outage begins with the first service that cannot reach the database, or that it refuses every
    write, and ends when all services that failed have succeeded again: one that had nothing to ask
    has proved nothing. `pool` has the connections that are not to outlive a read-only server.
    """

    def __init__(self, events: Events, pool: Pool | None = None) -> None:
        self._events = events
        self._pool = pool
        self._failing: set[str] = set()
        self._gone_at = 0.0
        self._reached = asyncio.Event()
        # Called when a statement lacks a partition of the history, which upkeep then makes.
        self.on_partition_missing: Callable[[], None] = lambda: None

    def gone(self, service: str, error: BaseException) -> None:
        if not self._failing:
            self._gone_at = time.monotonic()
            what = "does not answer" if errors.is_lost(error) else "takes no writes"
            cause = errors.cause(error)
            self._events.emit(DatabaseGone(service, cause))
            logger.warning("The database %s (%s: %s); trying again.", what, service, cause)
        self._failing.add(service)
        self._reached.clear()

    def back(self, service: str) -> None:
        if service in self._failing:
            self._failing.remove(service)
            self._reached.set()
            if not self._failing:
                seconds = time.monotonic() - self._gone_at
                logger.warning("The database answers again after %.1f s.", seconds)
                self._events.emit(DatabaseBack(seconds))

    def try_again(self) -> None:
        """End the pauses of those that wait for the database: it may have just answered."""
        self._reached.set()
        self._reached.clear()

    async def heed(self, error: BaseException) -> None:
        """Do what helps against an error, if anything does.

        Drop connections to a read-only server: they may stay with it after a failover.
        """
        if self._pool is not None and errors.is_read_only(error):
            await self._pool.expire_connections()
        if errors.is_partition_missing(error):
            self.on_partition_missing()

    async def pause(self, seconds: float) -> None:
        """After `gone`: wait before trying again, or until another has reached the database."""
        try:
            async with asyncio.timeout(seconds):
                await self._reached.wait()
        except TimeoutError:
            pass


class Service(ABC):
    """Something that ticks: each does a piece of work and says when the next is due."""

    name: str
    finish_within: float = FINISH

    def __init__(self, health: Health) -> None:
        self.health = health
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._resting = asyncio.Event()
        self._resting.set()
        self._reported: str | None = None

    @abstractmethod
    async def tick(self) -> float:
        """Do one piece of work; return how many seconds to wait before the next."""

    def wake(self) -> None:
        """Tick now instead of at the appointed time."""
        self._woken.set()

    @property
    def is_woken(self) -> bool:
        """Whether a tick is due that has not begun."""
        return self._woken.is_set()

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"penstock {self.name}")

    async def stop(self) -> None:
        """Stop after the tick under way; if that takes too long, in the middle of it.

        A statement that is broken off may or may not have happened.
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
        await leave_behind(task)

    async def _run(self) -> None:
        backoff = BACKOFF_FIRST
        lost_one = False
        while not errors.cancels():
            self._woken.clear()
            try:
                delay = await self._tick()
                backoff = BACKOFF_FIRST
                self._reported = None
                lost_one = False
                self.health.back(self.name)
            except Exception as error:
                errors.raise_if_cancelled(error)
                await self.health.heed(error)
                if _is_of_connection(error) and not lost_one:
                    # One connection of several is of no use: another will do if the database lives.
                    lost_one = True
                    await asyncio.sleep(0)
                    continue
                self._report(error)
                await self._back_off(error, backoff * (0.5 + random.random() / 2))
                backoff = min(backoff * 2, BACKOFF_LAST)
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
            self.health.gone(self.name, error)
        elif isinstance(error, LeaseLost):
            logger.info("%s waits for a new lease.", self.name.capitalize())
        elif repr(error) != self._reported:
            # Once per error, not once per try.
            self._reported = repr(error)
            logger.exception("%s failed and will be tried again.", self.name.capitalize())


def _is_of_connection(error: Exception) -> bool:
    return errors.is_lost(error) or errors.is_read_only(error)


class Budget:
    """Keeps costly look-arounds to a twentieth of the time, however long they take.

    One that was long only because the database was out of reach must not keep the next away: of
    the last two the shorter counts.
    """

    SHARE = 20

    def __init__(self, shortest: float) -> None:
        self._shortest = shortest
        self._began = 0.0
        self._took = 0.0
        self._before = 0.0

    def __enter__(self) -> Budget:
        self._began = time.monotonic()
        return self

    def __exit__(self, *exc: object) -> None:
        self._before, self._took = self._took, time.monotonic() - self._began

    @property
    def rest(self) -> float:
        """The seconds to leave it alone now."""
        return max(self._shortest, self.SHARE * self.cost)

    @property
    def cost(self) -> float:
        """The seconds that a look takes."""
        return min(self._took, self._before)
