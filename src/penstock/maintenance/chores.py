"""Small upkeep: take lost jobs back, sweep what has expired, warn of queues that nobody serves."""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence

from penstock.lifecycle import Health, ScanBudget, Service
from penstock.store import Pool, Store
from penstock.store.schedules import Schedules
from penstock.store.steps import Events as EventStatements
from penstock.store.steps import Steps
from penstock.telemetry import Events, JobsRescued
from penstock.wording import counted, listed, span

LIMIT = 1000


class Chore(Service):
    """What every led service has in common: it rests while another worker leads."""

    def __init__(
        self, pool: Pool, store: Store, health: Health, leads: Callable[[], bool], every: float
    ) -> None:
        super().__init__(health)
        self._pool = pool
        self._store = store
        self._leads = leads
        self._every = every
        self._budget = ScanBudget(every)

    @abstractmethod
    async def work(self) -> int:
        """Do one helping, at most LIMIT of whatever it is: how many there were."""

    async def tick(self) -> float:
        if not self._leads():
            return self._every
        with self._budget:
            done = await self.work()
        return 0 if done >= LIMIT else self._budget.pause


class Expirer(Chore):
    """Ends jobs whose deadline passed before anybody started them."""

    name = "expiry"

    async def work(self) -> int:
        return await self._store.expire(self._pool, LIMIT)


class Sweeper(Chore):
    """Removes dead leases, old keys, and the progress of jobs that are gone."""

    name = "sweep"

    async def work(self) -> int:
        return max((await self._store.sweep(self._pool, LIMIT)).values())


class FireSweeper(Chore):
    """Forgets what came of old ticks of schedules."""

    name = "sweep of schedules"

    async def work(self) -> int:
        return await Schedules(self._store).sweep(self._pool, LIMIT)


logger_rescuer = logging.getLogger("penstock.rescue")


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
        self._budget = ScanBudget(every)

    async def tick(self) -> float:
        await self._before()
        with self._budget:
            found = await self._store.rescue(self._pool, LIMIT)
        rescued = taken_back(found, self.health)
        tell(self._events, rescued, "of lost workers")
        return 0 if len(rescued) == LIMIT else self._budget.pause


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
        logger_rescuer.warning(
            "Took back %s %s; %d failed for good.", counted(len(rescued), "job"), which, failed
        )
        events.emit(JobsRescued(len(rescued), failed))


# While nobody waits, events are looked after less often: so many times the pace.
IDLE = 5
# All results of the cache are added up only each so many times.
SUMS = 10


class Waker(Chore):
    """Wakes jobs whose time for an event is over, or whose event could not wake them itself.

    While nobody waits it looks less often, unless a job of this worker begins to wait.
    """

    name = "event wake-up"
    _after = 0
    _is_idle = False

    def waits(self) -> None:
        """A job waits now."""
        if self._is_idle:
            self.wake()

    async def work(self) -> int:
        woken, upto, next_in = await EventStatements(self._store).wake(
            self._pool, LIMIT, self._after
        )
        self._after = upto or 0
        self._is_idle = next_in is None
        return woken if upto is None else LIMIT

    async def tick(self) -> float:
        rest = await super().tick()
        return IDLE * rest if self._is_idle else rest


class Walk(Chore):
    """A chore that goes through a table in helpings, for a twentieth of the time, and then rests
    before it begins again."""

    _after = 0

    async def tick(self) -> float:
        rest = await super().tick()
        is_midway = self._after and self._leads()
        return min(rest, self._budget.PAUSE_FACTOR * self._budget.cost) if is_midway else rest


class StepSweeper(Walk):
    """Removes the steps of jobs that are gone."""

    name = "step sweep"

    async def work(self) -> int:
        _, upto = await Steps(self._store).sweep(self._pool, self._after, LIMIT)
        self._after = upto or 0
        return 0


class EventSweeper(Walk):
    """Removes events whose time is over, and what is left of waits of jobs that have ended."""

    name = "event sweep"

    async def work(self) -> int:
        events, upto = await EventStatements(self._store).sweep(self._pool, self._after, LIMIT)
        self._after = upto or 0
        return events


class CacheSweeper(Chore):
    """Keeps the results that steps share within their time and their size."""

    name = "cache sweep"

    def __init__(
        self,
        pool: Pool,
        store: Store,
        health: Health,
        leads: Callable[[], bool],
        every: float,
        *,
        size: int,
    ) -> None:
        super().__init__(pool, store, health, leads, every)
        self._size = size
        self._excess = 0
        self._times = 0

    async def work(self) -> int:
        is_known = self._excess > 0 or self._times % SUMS > 0
        self._times += self._excess == 0
        done, self._excess = await Steps(self._store).sweep_cache(
            self._pool, self._size, LIMIT, self._excess if is_known else None
        )
        return done


logger_unserved = logging.getLogger("penstock.leader")

REPEAT_AFTER_S = 600.0


class UnservedQueues(Chore):
    """Looks for them now and then, and warns of each once in ten minutes."""

    name = "look for queues without a worker"

    def __init__(
        self, pool: Pool, store: Store, health: Health, leads: Callable[[], bool], every: float
    ) -> None:
        super().__init__(pool, store, health, leads, every)
        self._warned_at: dict[str, float] = {}

    async def work(self) -> int:
        unserved = await self._store.unserved_queues(self._pool, self._every)
        now = time.monotonic()
        # A queue that has been served meanwhile is news again.
        self._warned_at = {
            queue: self._warned_at[queue] for queue, _ in unserved if queue in self._warned_at
        }
        news = [
            (queue, seconds)
            for queue, seconds in unserved
            if now - self._warned_at.get(queue, -REPEAT_AFTER_S) >= REPEAT_AFTER_S
        ]
        if news:
            self._warned_at |= {queue: now for queue, _ in news}
            logger_unserved.warning("%s", warning_of(news))
        return 0


def warning_of(unserved: Sequence[tuple[str, float]]) -> str:
    """Which queues have nobody, since when, and what to do. The one that waits longest is first."""
    first, seconds = unserved[0]
    if len(unserved) == 1:
        told = f"No worker serves the queue {first}, whose oldest job has been ready for"
    else:
        names = listed(queue for queue, _ in unserved)
        told = (
            f"No worker serves the queues {names}. The oldest job, of {first}, has been ready for"
        )
    return (
        f"{told} {span(seconds)}. Start a worker for it: `penstock work APP --queue {first}`; or "
        "name the queue among those of a worker that runs."
    )
