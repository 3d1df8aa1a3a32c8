"""Budgets in handlers: units that are reserved before a block and settled after it."""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import wait as wait_for
from datetime import timedelta
from types import TracebackType
from typing import Any, TypeVar

from penstock.store import Attempt, Pool, Store, failures
from penstock.store.limits import Limits
from penstock.tasks import Budget, NotNow
from penstock.tasks.options import seconds
from penstock.worker.run import Run

T = TypeVar("T")

logger = logging.getLogger("penstock.worker")

# So many of the worker's connections at most wait for a bucket: claims and settles need theirs.
CONNECTIONS = 2
# After this the job asks again, however long the wait: an operator may have opened the key.
LONGEST_WAIT = 300.0
# Those who wait for one bucket are told the same time. They come back spread over a while after it,
# the longer the more often they came in vain.
SPREAD_TIMES = 8
SPREAD_MOST = 10.0
SPREAD_LEAST = 0.05
# While the database is away nobody can be asked.
AWAY = 1.0
# So often a thread that waits looks whether it is still wanted, and the loop still there.
LOOK = 0.2
A_YEAR = 31_536_000.0


class Budgets:
    """The budgets of a worker's handlers, on the worker's connections."""

    def __init__(self, pool: Pool, store: Store) -> None:
        self._pool = pool
        self._limits = Limits(store)
        self._turn = asyncio.Semaphore(CONNECTIONS)
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._rng = random.Random()
        self.has_rate: Callable[[str], bool] = lambda key: False
        self.on_close: Callable[[str, float], None] = lambda *_: None

    async def reserve(self, key: str, units: float) -> float | None:
        """None if the units are reserved, else the seconds after which to ask again."""
        try:
            async with self._turn:
                return await self._limits.reserve(self._pool, key, units)
        except Exception as error:
            if failures.is_lost(error) or failures.is_passing(error):
                logger.warning("The budget %r could not be asked: %r", key, error)
                return AWAY
            raise

    async def correct(self, key: str, units: float) -> None:
        """Give back units, or charge more (below 0)."""
        try:
            async with self._turn:
                await self._limits.correct(self._pool, key, units)
        except Exception as error:
            # The work itself is done; what was reserved counts as spent.
            logger.warning("The budget %r was not corrected by %g: %r", key, units, error)

    async def close(self, key: str, wait: float) -> float:
        """Close a key to everybody; the seconds until it opens."""
        wait = min(wait, A_YEAR)
        try:
            async with self._turn:
                wait = await self._limits.close_bucket(self._pool, key, wait)
        except Exception as error:
            logger.warning("The key %r was not closed to others: %r", key, error)
        self.on_close(key, wait)
        return wait

    def put_off(self, attempt: Attempt, key: str, wait: float) -> NotNow:
        """What ends an attempt that must wait."""
        in_vain = attempt.number - attempt.failures - attempt.losses
        return NotNow(self.spread(min(wait, LONGEST_WAIT), in_vain), key)

    def spread(self, wait: float, times: int) -> float:
        """A wait and a part of what others may have to wait after it."""
        over = wait * min(max(times, 1), SPREAD_TIMES)
        return wait + self._rng.random() * min(max(over, SPREAD_LEAST), SPREAD_MOST)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The coroutine's result, for a handler in a thread, which waits for it."""
        if threading.get_ident() == self._thread:
            coroutine.close()
            raise RuntimeError(
                "ctx.sync blocks, and this handler runs in the event loop, which would stand still:"
                " `async with ctx.budget(…)`, `await ctx.close_bucket(…)`."
            )
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:  # The loop is closed, and the worker with it.
            coroutine.close()
            raise
        while True:
            wait_for([future], LOOK)
            if future.done():
                return future.result()
            if self._loop.is_closed():
                # It ended before it began what it was just given.
                raise RuntimeError("The worker has stopped.")


class BudgetBlock:
    """One block of a handler, with its part of a budget."""

    def __init__(
        self, budgets: Budgets, run: Run, key: str, units: float, wait: float | timedelta
    ) -> None:
        self._budgets = budgets
        self._run = run
        self._wait = seconds("wait", wait)
        self._budget = Budget(key, units)

    async def __aenter__(self) -> Budget:
        budgets, key, left, times = self._budgets, self._budget.key, self._wait, 0
        while (wait := await budgets.reserve(key, self._budget.units)) is not None:
            if wait >= left or self._run.stopped is not None:
                raise budgets.put_off(self._run.attempt, key, wait)
            times += 1
            pause = min(budgets.spread(wait, times), left)
            left -= await self._pause(pause)
        return self._budget

    def stop_here(self) -> None:
        """A thread cannot be stopped; here, before it begins anything, is the place to end it."""
        if self._run.stopped is not None:
            raise self._budgets.put_off(self._run.attempt, self._budget.key, 0.0)

    async def _pause(self, length: float) -> float:
        """Wait here, unless the attempt is told to stop; how long that was."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        # By looking: nothing on the loop is told when the attempt of a thread is to stop.
        while (left := began + length - loop.time()) > 0 and self._run.stopped is None:  # noqa: ASYNC110
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
        if back:
            await budgets.correct(key, back)
        # One that is told to stop, or to wait already, goes on with that.
        if closes is not None and (error is None or isinstance(error, Exception)):
            raise budgets.put_off(self._run.attempt, key, closes) from error


class SyncBudgetBlock:
    """The same for a handler in a thread."""

    def __init__(self, budgets: Budgets, block: BudgetBlock) -> None:
        self._budgets = budgets
        self._block = block

    def __enter__(self) -> Budget:
        self._block.stop_here()
        return self._budgets.run(self._block.__aenter__())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._budgets.run(self._block.__aexit__(kind, error, trace))
