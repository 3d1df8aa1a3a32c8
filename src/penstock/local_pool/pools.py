"""The local pools of an app: they end with it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

from penstock.errors import ConfigError
from penstock.events import Events
from penstock.local_pool.home import Home
from penstock.local_pool.life import CLOSE_WAIT, Host, Life
from penstock.local_pool.pool import LocalPool
from penstock.local_pool.submitted import SubmittedCall


class LocalPools:
    """Makes them, and waits for them when a worker stops or the app is closed."""

    def __init__(
        self, events: Events, make_home: Callable[[], Home], close_wait: float = CLOSE_WAIT
    ) -> None:
        self._host = Host(events, make_home)
        self._pools: dict[str, LocalPool] = {}
        self._close_wait = close_wait

    def dress(self, dress: Callable[[SubmittedCall], None]) -> None:
        """Have each call of the pools that are made from now on seen to."""
        self._host = replace(self._host, dress=dress)

    def get(self, name: str, workers: int, slots: int) -> LocalPool:
        """The pool of this name, made at the first call."""
        pool = self._pools.get(name)
        if pool is None:
            made = LocalPool(name, workers=workers, slots=slots, _host=self._host)
            pool = self._pools.setdefault(name, made)
        if (pool.workers, pool.slots) != (workers, slots):
            raise ConfigError(
                f"local_pool {name}",
                f"workers={workers}, slots={slots}",
                f"workers={pool.workers}, slots={pool.slots}, as it was made, or another name",
            )
        return pool

    @property
    def _lives(self) -> list[Life]:
        return [pool._life for pool in tuple(self._pools.values())]

    @property
    def is_used(self) -> bool:
        """Whether there is any."""
        return bool(self._pools)

    @property
    def calls(self) -> int:
        """How many wait or run, without those that were waited for in vain."""
        return sum(life.ledger.timely for life in self._lives)

    async def settle(self, timeout: float) -> None:
        """Wait for what the pools have now. They go on; what takes longer is not waited for again.

        Also if the wait is cancelled.
        """
        await asyncio.gather(*(life.settle(timeout) for life in self._lives))

    def settle_blocking(self) -> None:
        """The same, in a thread that may wait."""
        ends_at = time.monotonic() + self._close_wait
        for life in self._lives:
            life.settle_blocking(max(ends_at - time.monotonic(), 0))

    async def close(self) -> None:
        """Drain them, as the app is closed; with its next use they take calls again."""
        lives = self._lives
        try:
            await asyncio.gather(
                *(life.finish(life.close(again=False), self._close_wait) for life in lives)
            )
        finally:
            for life in lives:
                life.reopen()
