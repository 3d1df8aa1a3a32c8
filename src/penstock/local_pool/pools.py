"""The local pools of an app: they end with it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from penstock.errors import ConfigError
from penstock.events import Events
from penstock.local_pool.call import Call
from penstock.local_pool.home import Home
from penstock.local_pool.pool import CLOSE_WAIT, LocalPool


class LocalPools:
    """Makes them, and waits for them when a worker stops or the app is closed."""

    def __init__(self, events: Events, make_home: Callable[[], Home]) -> None:
        self._events = events
        self._make_home = make_home
        self._pools: dict[str, LocalPool] = {}
        self.dress: Callable[[Call], None] | None = None

    def get(self, name: str, workers: int, slots: int) -> LocalPool:
        """The pool of this name, made at the first call."""
        pool = self._pools.get(name)
        if pool is None:
            made = LocalPool(name, workers=workers, slots=slots)
            made._move(self._events, self._make_home, self.dress)
            pool = self._pools.setdefault(name, made)
        if (pool.workers, pool.slots) != (workers, slots):
            raise ConfigError(
                f"local_pool {name}",
                f"workers={workers}, slots={slots}",
                f"workers={pool.workers}, slots={pool.slots}, as it was made, or another name",
            )
        return pool

    @property
    def calls(self) -> int:
        """How many wait or run, without those that were waited for in vain."""
        return sum(pool._ledger.timely for pool in self._pools.values())

    async def settle(self, timeout: float) -> None:
        """Wait for what the pools have now. They go on; what takes longer is not waited for again.

        Also if the wait is cancelled.
        """
        await asyncio.gather(*(pool._settle(timeout) for pool in self._pools.values()))

    def settle_blocking(self) -> None:
        """The same, in a thread that may wait."""
        ends_at = time.monotonic() + CLOSE_WAIT
        for pool in tuple(self._pools.values()):
            pool._settle_blocking(max(ends_at - time.monotonic(), 0))

    async def close(self) -> None:
        """Drain them, as the app is closed; with its next use they take calls again."""
        pools = tuple(self._pools.values())
        try:
            await asyncio.gather(
                *(pool._finish(pool._close(again=False), CLOSE_WAIT) for pool in pools)
            )
        finally:
            for pool in pools:
                pool._ledger.closed = False
