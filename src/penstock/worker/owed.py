"""Changes of budgets that a worker could not write: it writes them once the database is back."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from msgspec import Struct

from penstock.lifecycle import Health, Service
from penstock.store import Executor, Pool, failures

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
            logger.warning("%s: %s.", debt.unpaid, failures.why(error))
            if isinstance(error, asyncio.CancelledError):
                raise
            return None


def _may_pass(error: BaseException) -> bool:
    is_broken_off = isinstance(error, asyncio.CancelledError)
    return is_broken_off or failures.is_unavailable(error) or failures.is_passing(error)


def _may_have_happened(error: BaseException) -> bool:
    is_lost = failures.is_lost(error) and not failures.never_arrived(error)
    return is_lost or isinstance(error, asyncio.CancelledError)
