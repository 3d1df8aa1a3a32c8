"""Budgets of handlers: units are reserved before a block and corrected after it."""

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

from penstock.lifecycle import DatabaseHealth, Service
from penstock.store import Executor, Pool, Store, errors
from penstock.store.grants import LimitStatements
from penstock.tasks import Budget, NotNow
from penstock.tasks.options import seconds
from penstock.worker.attempt import StopReason
from penstock.worker.run.journal import ExplainError, keep_error
from penstock.worker.run.threads import CHECK_INTERVAL_S, Bridge

logger = logging.getLogger("penstock.worker")

IDLE_PAUSE_S: Final = 3600.0


class BudgetWrite(Struct, frozen=True):
    """A change of a budget that must be written."""

    log_text: str
    """The log line if it is never written."""
    write: Callable[[Executor], Awaitable[Any]]
    is_repeatable: bool
    """Whether to write it again if the answer was lost. In doubt, units count as spent."""


class BudgetWriter(Service):
    """Writes changes of budgets at once, or as soon as the database is back."""

    name = "budgets"

    def __init__(self, pool: Pool, health: DatabaseHealth) -> None:
        super().__init__(health)
        self._pool = pool
        self._unwritten: deque[BudgetWrite] = deque()

    @property
    def unwritten(self) -> int:
        return len(self._unwritten)

    async def write(self, change: BudgetWrite) -> Any:
        """Write a change and return the result.

        Return None if the change is kept for later or cannot be made.
        """
        with suppress(Exception):
            return await self._write_or_keep(change)
        self.wake()
        return None

    async def tick(self) -> float:
        while self._unwritten:
            await self._write_or_keep(self._unwritten.popleft())
        return IDLE_PAUSE_S

    async def stop(self) -> None:
        await super().stop()
        try:
            with suppress(Exception):
                await self.tick()
        finally:
            for change in self._unwritten:
                logger.warning("%s: the worker stops.", change.log_text)
            self._unwritten.clear()

    async def _write_or_keep(self, change: BudgetWrite) -> Any:
        """Write a change and return the result, or None if the change cannot be made.

        If the write may succeed later, keep the change and raise the error.
        """
        is_sent = False
        try:
            async with self._pool.acquire() as connection:
                is_sent = True
                return await change.write(connection)
        except (Exception, asyncio.CancelledError) as error:
            is_doubtful = is_sent and not change.is_repeatable and _may_have_happened(error)
            if _may_pass(error) and not is_doubtful:
                self._unwritten.append(change)
                raise
            logger.warning("%s: %s.", change.log_text, errors.why(error))
            if isinstance(error, asyncio.CancelledError):
                raise
            return None


def _may_pass(error: BaseException) -> bool:
    is_broken_off = isinstance(error, asyncio.CancelledError)
    return is_broken_off or errors.is_unavailable(error) or errors.is_transient(error)


def _may_have_happened(error: BaseException) -> bool:
    is_lost = errors.is_lost(error) and not errors.never_arrived(error)
    return is_lost or isinstance(error, asyncio.CancelledError)


# At most this many of the worker's connections wait for buckets: claims and settles need the
# others.
MAX_CONNECTIONS = 2
# After this the job asks again, however long the wait: an operator may have opened the key.
MAX_WAIT_S = 300.0
# Jobs that wait for one bucket get different times, except those with the longest wait and those
# that close a key together. Waits are spread by this part of their length.
WAIT_SPREAD = 1 / 50
# The share of its reserved units that a block is expected to spend, before the first one has ended.
# Who comes too early asks once more, but tokens that nobody takes in time overflow.
FIRST_SPENT_SHARE = 0.5
# How much each ended block changes the known share, and how many keys are remembered.
SHARE_WEIGHT = 0.1
MAX_KEYS = 10_000
# While the database is away nobody can be asked.
AWAY_RETRY_S = 1.0
YEAR_S = 31_536_000.0


class Budgets:
    """The budgets of a worker's handlers, on the worker's connections."""

    def __init__(
        self, pool: Pool, store: Store, writer: BudgetWriter, explain: ExplainError = keep_error
    ) -> None:
        self._pool = pool
        self._writer = writer
        self._explain = explain
        self._limits = LimitStatements(store)
        self._connection_slots = asyncio.Semaphore(MAX_CONNECTIONS)
        self._rng = random.Random()
        self._shares: dict[str, float] = {}
        self.has_rate: Callable[[str], bool] = lambda key: False
        self.on_close: Callable[[str, float], None] = lambda *_: None

    async def reserve(self, key: str, units: float) -> float | None:
        """Reserve units. Return None on success, else the seconds after which to ask again."""
        try:
            async with self._connection_slots:
                share = self._shares.get(key, FIRST_SPENT_SHARE)
                return await self._limits.reserve(self._pool, key, units, share)
        except Exception as error:
            if errors.is_lost(error) or errors.is_transient(error):
                if not errors.is_unavailable(error):
                    logger.warning(
                        "Units of the budget %r could not be reserved, and this is tried again: %r",
                        key,
                        error,
                    )
                return AWAY_RETRY_S
            if (explained := self._explain(error)) is not None:
                raise explained from explained.__cause__ or error
            raise

    async def correct(self, key: str, units: float) -> None:
        """Give back units, or charge more if `units` is below 0.

        This never fails, because the work is done already.
        """
        await self._write(
            f"The budget {key!r} was not corrected by {units:g}",
            lambda connection: self._limits.correct(connection, key, units),
            is_repeatable=units < 0,
        )

    async def close(self, key: str, wait: float) -> float:
        """Close a key for everybody, and return the seconds until it opens."""
        wait = min(wait, YEAR_S)
        # This worker closes the key first: after the answer it may have been opened again already,
        # and the worker may know.
        self.on_close(key, wait)
        opens_at = time.monotonic() + wait

        async def close(connection: Executor) -> float:
            left = max(opens_at - time.monotonic(), 0.0)
            return await self._limits.close_bucket(connection, key, left)

        log_text = f"Other workers were not told that the key {key!r} is closed"
        seconds_left: float | None = await self._write(log_text, close, is_repeatable=True)
        return wait if seconds_left is None else seconds_left

    def learn(self, key: str, share: float) -> None:
        """Learn which share of its reserved units a block of this key spends."""
        old_share = self._shares.get(key, share)
        if len(self._shares) >= MAX_KEYS:
            self._shares.clear()
        self._shares[key] = old_share + SHARE_WEIGHT * (share - old_share)

    async def give_back_starts(self, keys: Sequence[str]) -> None:
        """Give back the tokens that starts took: one for each time that a key is in the list."""
        back = {key: -n for key, n in Counter(keys).items()}
        await self._write(
            f"Starts were not given back to {', '.join(back)}",
            lambda connection: self._limits.take(connection, back),
            is_repeatable=False,
        )

    async def _write(
        self, log_text: str, write: Callable[[Executor], Awaitable[Any]], *, is_repeatable: bool
    ) -> Any:
        async with self._connection_slots:
            return await self._writer.write(BudgetWrite(log_text, write, is_repeatable))

    def not_now(self, key: str, wait: float) -> NotNow:
        """Return the exception that ends an attempt which must wait."""
        return NotNow(self.spread_wait(min(wait, MAX_WAIT_S)), key)

    def spread_wait(self, wait: float) -> float:
        return wait + self._rng.random() * wait * WAIT_SPREAD


class Stoppable(Protocol):
    """An attempt or a shared call, which can be told to stop."""

    @property
    def stop_reason(self) -> StopReason | None: ...


class BudgetBlock:
    """One `async with ctx.budget(…)` block of a handler."""

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
            if wait >= left or self._attempt.stop_reason is not None:
                raise budgets.not_now(key, wait)
            pause = min(budgets.spread_wait(wait), left)
            left -= await self._pause(pause)
        return self._budget

    def raise_if_stopped(self) -> None:
        """Raise if the attempt was told to stop, because its thread cannot be stopped later."""
        if self._attempt.stop_reason is not None:
            raise self._budgets.not_now(self._budget.key, 0.0)

    async def _pause(self, length: float) -> float:
        """Wait for this long, or until the attempt is told to stop. Return the seconds waited."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        # It checks now and then: nothing on the loop is told when an attempt in a thread is to
        # stop.
        while (left := began + length - loop.time()) > 0 and self._attempt.stop_reason is None:  # noqa: ASYNC110
            await asyncio.sleep(min(left, CHECK_INTERVAL_S))
        return loop.time() - began

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        budgets, key = self._budgets, self._budget.key
        back, close_for = self._budget.end(error)
        if close_for is not None:
            close_for = await budgets.close(key, close_for)
        elif self._budget.units:
            budgets.learn(key, 1 - back / self._budget.units)
        if back:
            await budgets.correct(key, back)
        # An attempt that must stop or wait already goes on with that.
        if close_for is not None and (error is None or isinstance(error, Exception)):
            raise budgets.not_now(key, close_for) from error


class SyncBudgetBlock:
    """A budget block for a handler in a thread."""

    def __init__(self, bridge: Bridge, block: BudgetBlock) -> None:
        self._bridge = bridge
        self._block = block

    def __enter__(self) -> Budget:
        self._block.raise_if_stopped()
        return self._bridge.run(self._block.__aenter__())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bridge.run(self._block.__aexit__(kind, error, trace))
