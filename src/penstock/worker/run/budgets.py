"""Budgets in handlers: units that are reserved before a block and settled after it."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Protocol

from msgspec import Struct

from penstock.lifecycle import Health, Service
from penstock.store import Executor, Pool, Store, errors
from penstock.store.grants import Limits
from penstock.tasks import Budget, NotNow
from penstock.tasks.options import seconds
from penstock.worker.attempt import StopReason
from penstock.worker.run.journal import Explained, as_it_is
from penstock.worker.run.threads import LOOK, Bridge

logger = logging.getLogger("penstock.worker")

FOR_EVER: Final = 3600.0


class Debt(Struct, frozen=True):
    """A change of a budget that has to be written."""

    unpaid: str
    """The log line if it is never written."""
    pay: Callable[[Executor], Awaitable[Any]]
    is_safe_twice: bool
    """Whether to write it again if the answer was lost: in doubt, units count as spent."""


class Owed(Service):
    """Writes changes of budgets at once, or as soon as the database serves again."""

    name = "budgets"

    def __init__(self, pool: Pool, health: Health) -> None:
        super().__init__(health)
        self._pool = pool
        self._debts: deque[Debt] = deque()

    @property
    def debts(self) -> int:
        return len(self._debts)

    async def pay(self, debt: Debt) -> Any:
        """The result of the write; None if it is kept for later, or cannot be made at all."""
        with suppress(Exception):
            return await self._paid(debt)
        self.wake()
        return None

    async def tick(self) -> float:
        while self._debts:
            await self._paid(self._debts.popleft())
        return FOR_EVER

    async def stop(self) -> None:
        await super().stop()
        try:
            with suppress(Exception):
                await self.tick()
        finally:
            for debt in self._debts:
                logger.warning("%s: the worker stops.", debt.unpaid)
            self._debts.clear()

    async def _paid(self, debt: Debt) -> Any:
        """Like `pay`, but raises the error if the debt is kept for later."""
        is_sent = False
        try:
            async with self._pool.acquire() as on:
                is_sent = True
                return await debt.pay(on)
        except (Exception, asyncio.CancelledError) as error:
            is_doubtful = is_sent and not debt.is_safe_twice and _may_have_happened(error)
            if _may_pass(error) and not is_doubtful:
                self._debts.append(debt)
                raise
            logger.warning("%s: %s.", debt.unpaid, errors.why(error))
            if isinstance(error, asyncio.CancelledError):
                raise
            return None


def _may_pass(error: BaseException) -> bool:
    is_broken_off = isinstance(error, asyncio.CancelledError)
    return is_broken_off or errors.is_unavailable(error) or errors.is_transient(error)


def _may_have_happened(error: BaseException) -> bool:
    is_lost = errors.is_lost(error) and not errors.never_arrived(error)
    return is_lost or isinstance(error, asyncio.CancelledError)


# So many of the worker's connections at most wait for a bucket: claims and settles need theirs.
CONNECTIONS = 2
# After this the job asks again, however long the wait: an operator may have opened the key.
LONGEST_WAIT = 300.0
# Those who wait for one bucket are told times one after the other, but for those who have longest
# to wait, or close a key together: they come back spread over a part of the wait.
SPREAD = 1 / 50
# What is taken to be spent in the end of what was reserved, before the first has ended. Who comes
# too early asks once more; but what nobody comes for in time runs over.
SHARE = 0.5
# What the next end adds to what is known, and of how many keys it is.
NEWS = 0.1
KEYS = 10_000
# While the database is away nobody can be asked.
AWAY = 1.0
A_YEAR = 31_536_000.0


class Budgets:
    """The budgets of a worker's handlers, on the worker's connections."""

    def __init__(
        self, pool: Pool, store: Store, owed: Owed, explained: Explained = as_it_is
    ) -> None:
        self._pool = pool
        self._owed = owed
        self._explained = explained
        self._limits = Limits(store)
        self._turn = asyncio.Semaphore(CONNECTIONS)
        self._rng = random.Random()
        self._shares: dict[str, float] = {}
        self.has_rate: Callable[[str], bool] = lambda key: False
        self.on_close: Callable[[str, float], None] = lambda *_: None

    async def reserve(self, key: str, units: float) -> float | None:
        """None if the units are reserved, else the seconds after which to ask again."""
        try:
            async with self._turn:
                share = self._shares.get(key, SHARE)
                return await self._limits.reserve(self._pool, key, units, share)
        except Exception as error:
            if errors.is_lost(error) or errors.is_transient(error):
                if not errors.is_unavailable(error):
                    logger.warning("The budget %r could not be asked: %r", key, error)
                return AWAY
            if (told := self._explained(error)) is not None:
                raise told from told.__cause__ or error
            raise

    async def correct(self, key: str, units: float) -> None:
        """Give back units, or charge more (below 0); the work itself is done, so nothing fails."""
        await self._pay(
            f"The budget {key!r} was not corrected by {units:g}",
            lambda on: self._limits.correct(on, key, units),
            is_safe_twice=units < 0,
        )

    async def close(self, key: str, wait: float) -> float:
        """Close a key to everybody; the seconds until it opens."""
        wait = min(wait, A_YEAR)
        # Here first: after the answer it may have been opened again already, and that be known.
        self.on_close(key, wait)
        opens_at = time.monotonic() + wait

        async def close(on: Executor) -> float:
            left = max(opens_at - time.monotonic(), 0.0)
            return await self._limits.close_bucket(on, key, left)

        unpaid = f"Other workers were not told that the key {key!r} is closed"
        told: float | None = await self._pay(unpaid, close, is_safe_twice=True)
        return wait if told is None else told

    def learn(self, key: str, share: float) -> None:
        """A block has ended and spent such a share of what it had reserved."""
        known = self._shares.get(key, share)
        if len(self._shares) >= KEYS:
            self._shares.clear()
        self._shares[key] = known + NEWS * (share - known)

    async def give_back_starts(self, keys: Sequence[str]) -> None:
        """Give back what starts took: one of a key for each time that it is named."""
        back = {key: -n for key, n in Counter(keys).items()}
        await self._pay(
            f"Starts were not given back to {', '.join(back)}",
            lambda on: self._limits.take(on, back),
            is_safe_twice=False,
        )

    async def _pay(
        self, unpaid: str, pay: Callable[[Executor], Awaitable[Any]], *, is_safe_twice: bool
    ) -> Any:
        async with self._turn:
            return await self._owed.pay(Debt(unpaid, pay, is_safe_twice))

    def put_off(self, key: str, wait: float) -> NotNow:
        """What ends an attempt that must wait."""
        return NotNow(self.spread(min(wait, LONGEST_WAIT)), key)

    def spread(self, wait: float) -> float:
        return wait + self._rng.random() * wait * SPREAD


class Stoppable(Protocol):
    """An attempt, or a call of several: what may be told to stop."""

    @property
    def stopped(self) -> StopReason | None: ...


class BudgetBlock:
    """One block of a handler, with its part of a budget."""

    def __init__(
        self, budgets: Budgets, attempt: Stoppable, key: str, units: float, wait: float | timedelta
    ) -> None:
        self._budgets = budgets
        self._attempt = attempt
        self._wait = seconds("wait", wait)
        self._budget = Budget(key, units)

    async def __aenter__(self) -> Budget:
        budgets, key, left = self._budgets, self._budget.key, self._wait
        while (wait := await budgets.reserve(key, self._budget.units)) is not None:
            if wait >= left or self._attempt.stopped is not None:
                raise budgets.put_off(key, wait)
            pause = min(budgets.spread(wait), left)
            left -= await self._pause(pause)
        return self._budget

    def stop_here(self) -> None:
        """A thread cannot be stopped; here, before it begins anything, is the place to end it."""
        if self._attempt.stopped is not None:
            raise self._budgets.put_off(self._budget.key, 0.0)

    async def _pause(self, length: float) -> float:
        """Wait here, unless the attempt is told to stop; how long that was."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        # By looking: nothing on the loop is told when the attempt of a thread is to stop.
        while (left := began + length - loop.time()) > 0 and self._attempt.stopped is None:  # noqa: ASYNC110
            await asyncio.sleep(min(left, LOOK))
        return loop.time() - began

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        budgets, key = self._budgets, self._budget.key
        back, closes = self._budget.end(error)
        if closes is not None:
            closes = await budgets.close(key, closes)
        elif self._budget.units:
            budgets.learn(key, 1 - back / self._budget.units)
        if back:
            await budgets.correct(key, back)
        # One that is told to stop, or to wait already, goes on with that.
        if closes is not None and (error is None or isinstance(error, Exception)):
            raise budgets.put_off(key, closes) from error


class SyncBudgetBlock:
    """The same for a handler in a thread."""

    def __init__(self, bridge: Bridge, block: BudgetBlock) -> None:
        self._bridge = bridge
        self._block = block

    def __enter__(self) -> Budget:
        self._block.stop_here()
        return self._bridge.run(self._block.__aenter__())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bridge.run(self._block.__aexit__(kind, error, trace))
