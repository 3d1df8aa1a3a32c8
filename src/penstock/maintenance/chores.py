"""Small maintenance tasks: rescue lost jobs, sweep expired rows, warn of unserved queues."""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence

from penstock.lifecycle import DatabaseHealth, ScanBudget, Service
from penstock.store import Pool, Store
from penstock.store.schedules import ScheduleStatements
from penstock.store.steps import EventStatements as EventStatements
from penstock.store.steps import Steps
from penstock.telemetry import Events, JobsRescued
from penstock.wording import counted, listed, span

MAX_ROWS_PER_RUN = 1000


class Chore(Service):
    """A service that works only while this worker is the leader."""

    def __init__(
        self,
        pool: Pool,
        store: Store,
        health: DatabaseHealth,
        leads: Callable[[], bool],
        interval: float,
    ) -> None:
        super().__init__(health)
        self._pool = pool
        self._store = store
        self._leads = leads
        self._interval = interval
        self._budget = ScanBudget(interval)

    @abstractmethod
    async def work(self) -> int:
        """Process some rows, MAX_ROWS_PER_RUN at most, and return how many."""

    async def tick(self) -> float:
        if not self._leads():
            return self._interval
        with self._budget:
            done = await self.work()
        return 0 if done >= MAX_ROWS_PER_RUN else self._budget.pause


class Expirer(Chore):
    """Ends jobs whose deadline passed before they started."""

    name = "expiry"

    async def work(self) -> int:
        return await self._store.expire(self._pool, MAX_ROWS_PER_RUN)


class HistorySweeper(Chore):
    """Removes dead leases, old idempotency keys, and the progress of jobs that are gone."""

    name = "sweep"

    async def work(self) -> int:
        return max((await self._store.sweep(self._pool, MAX_ROWS_PER_RUN)).values())


class FireSweeper(Chore):
    """Removes the records of old ticks of schedules."""

    name = "sweep of schedules"

    async def work(self) -> int:
        return await ScheduleStatements(self._store).sweep(self._pool, MAX_ROWS_PER_RUN)


rescue_logger = logging.getLogger("penstock.rescue")


class Rescuer(Service):
    """Rescues the jobs of workers whose lease has expired. Every worker does this."""

    name = "rescue"

    def __init__(
        self,
        pool: Pool,
        store: Store,
        health: DatabaseHealth,
        events: Events,
        interval: float,
        *,
        before_rescue: Callable[[], Awaitable[None]],
    ) -> None:
        """`before_rescue` writes what can still be written of jobs that this worker has lost."""
        super().__init__(health)
        self._before_rescue = before_rescue
        self._pool = pool
        self._store = store
        self._events = events
        self._budget = ScanBudget(interval)

    async def tick(self) -> float:
        await self._before_rescue()
        with self._budget:
            jobs = await self._store.rescue(self._pool, MAX_ROWS_PER_RUN)
        rescued = filter_rescued(jobs, self.health)
        report_rescued(self._events, rescued, "of lost workers")
        return 0 if len(rescued) == MAX_ROWS_PER_RUN else self._budget.pause


class OvertimeRescuer(Chore):
    """Rescues jobs that outlived their timeout in a worker that still renews its lease."""

    name = "overtime rescue"

    def __init__(
        self,
        pool: Pool,
        store: Store,
        health: DatabaseHealth,
        leads: Callable[[], bool],
        interval: float,
        *,
        events: Events,
        grace: float,
    ) -> None:
        super().__init__(pool, store, health, leads, interval)
        self._events = events
        self._grace = grace

    async def work(self) -> int:
        jobs = await self._store.rescue_overtime(self._pool, self._grace, MAX_ROWS_PER_RUN)
        rescued = filter_rescued(jobs, self.health)
        report_rescued(
            self._events, rescued, "past the timeout, of workers that could not end them"
        )
        return len(rescued)


def filter_rescued(
    jobs: Sequence[tuple[int, bool | None]], health: DatabaseHealth
) -> list[tuple[int, bool]]:
    """Return the jobs that were rescued.

    The history has no partition for the other jobs, so this asks for one.
    """
    rescued = [(job, lost) for job, lost in jobs if lost is not None]
    if len(rescued) < len(jobs):
        health.on_partition_missing()
    return rescued


def report_rescued(events: Events, rescued: Sequence[tuple[int, bool]], origin: str) -> None:
    if rescued:
        failed = sum(lost for _, lost in rescued)
        rescue_logger.warning(
            "Took back %s %s; %d failed for good.", counted(len(rescued), "job"), origin, failed
        )
        events.emit(JobsRescued(len(rescued), failed))


# While no job waits, the interval between checks is this many times longer.
IDLE_FACTOR = 5
# The size of the whole cache is summed only once in this many runs.
RUNS_PER_SUM = 10


class Waker(Chore):
    """Wakes jobs whose wait for an event has timed out, or whose event could not wake them itself.

    While no job waits, it checks less often. When a job of this worker begins to wait, it checks at
    once.
    """

    name = "event wake-up"
    _last_id = 0
    _is_idle = False

    def note_wait(self) -> None:
        """Note that a job of this worker has begun to wait."""
        if self._is_idle:
            self.wake()

    async def work(self) -> int:
        woken, upto, next_in = await EventStatements(self._store).wake(
            self._pool, MAX_ROWS_PER_RUN, self._last_id
        )
        self._last_id = upto or 0
        self._is_idle = next_in is None
        return woken if upto is None else MAX_ROWS_PER_RUN

    async def tick(self) -> float:
        rest = await super().tick()
        return IDLE_FACTOR * rest if self._is_idle else rest


class TableWalk(Chore):
    """A chore that walks through a table in parts, and rests after each walk.

    During a walk, it works for a twentieth of the time.
    """

    _last_id = 0

    async def tick(self) -> float:
        rest = await super().tick()
        is_midway = self._last_id and self._leads()
        return min(rest, self._budget.PAUSE_FACTOR * self._budget.cost) if is_midway else rest


class StepSweeper(TableWalk):
    """Removes the steps of jobs that are gone."""

    name = "step sweep"

    async def work(self) -> int:
        _, upto = await Steps(self._store).sweep(self._pool, self._last_id, MAX_ROWS_PER_RUN)
        self._last_id = upto or 0
        return 0


class EventSweeper(TableWalk):
    """Removes expired events, and waits of jobs that have ended."""

    name = "event sweep"

    async def work(self) -> int:
        events, upto = await EventStatements(self._store).sweep(
            self._pool, self._last_id, MAX_ROWS_PER_RUN
        )
        self._last_id = upto or 0
        return events


class CacheSweeper(Chore):
    """Removes shared results of steps that are too old, or that exceed the cache's size."""

    name = "cache sweep"

    def __init__(
        self,
        pool: Pool,
        store: Store,
        health: DatabaseHealth,
        leads: Callable[[], bool],
        interval: float,
        *,
        size: int,
    ) -> None:
        super().__init__(pool, store, health, leads, interval)
        self._size = size
        self._excess = 0
        self._runs = 0

    async def work(self) -> int:
        is_known = self._excess > 0 or self._runs % RUNS_PER_SUM > 0
        self._runs += self._excess == 0
        done, self._excess = await Steps(self._store).sweep_cache(
            self._pool, self._size, MAX_ROWS_PER_RUN, self._excess if is_known else None
        )
        return done


leader_logger = logging.getLogger("penstock.leader")

WARN_INTERVAL_S = 600.0


class UnservedQueues(Chore):
    """Warns of queues without a worker, at most once in ten minutes for each queue."""

    name = "look for queues without a worker"

    def __init__(
        self,
        pool: Pool,
        store: Store,
        health: DatabaseHealth,
        leads: Callable[[], bool],
        interval: float,
    ) -> None:
        super().__init__(pool, store, health, leads, interval)
        self._warned_at: dict[str, float] = {}

    async def work(self) -> int:
        unserved = await self._store.unserved_queues(self._pool, self._interval)
        now = time.monotonic()
        # A queue that has been served meanwhile is news again.
        self._warned_at = {
            queue: self._warned_at[queue] for queue, _ in unserved if queue in self._warned_at
        }
        to_warn = [
            (queue, seconds)
            for queue, seconds in unserved
            if now - self._warned_at.get(queue, -WARN_INTERVAL_S) >= WARN_INTERVAL_S
        ]
        if to_warn:
            self._warned_at |= {queue: now for queue, _ in to_warn}
            leader_logger.warning("%s", describe_unserved(to_warn))
        return 0


def describe_unserved(unserved: Sequence[tuple[str, float]]) -> str:
    """Return a warning that names the queues, how long they have waited, and what to do.

    The queue that has waited longest comes first.
    """
    first, seconds = unserved[0]
    if len(unserved) == 1:
        text = f"No worker serves the queue {first}, whose oldest job has been ready for"
    else:
        names = listed(queue for queue, _ in unserved)
        text = (
            f"No worker serves the queues {names}. The oldest job, of {first}, has been ready for"
        )
    return (
        f"{text} {span(seconds)}. Start a worker for it with `penstock work APP --queue {first}`, "
        "or add the queue to those of a running worker."
    )
