"""The local pools of an app, which end with the app."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

from penstock.errors import ConfigError
from penstock.local_pool.call import SubmittedCall
from penstock.local_pool.core import CLOSE_TIMEOUT_S, PoolCore, PoolHost
from penstock.local_pool.loop import LoopSource
from penstock.local_pool.pool import LocalPool
from penstock.telemetry import Events


class LocalPools:
    """Makes an app's pools, and waits for them when a worker stops or the app is closed."""

    def __init__(
        self,
        events: Events,
        make_loop_source: Callable[[], LoopSource],
        close_wait: float = CLOSE_TIMEOUT_S,
    ) -> None:
        self._host = PoolHost(events, make_loop_source)
        self._pools: dict[str, LocalPool] = {}
        self._close_wait = close_wait

    def prepare_calls_with(self, prepare: Callable[[SubmittedCall], None]) -> None:
        """Prepare each call with this function, in pools that are made from now on."""
        self._host = replace(self._host, prepare_call=prepare)

    def get(self, name: str, workers: int, slots: int) -> LocalPool:
        """Return the pool of this name. The first call makes it."""
        pool = self._pools.get(name)
        if pool is None:
            new_pool = LocalPool(name, workers=workers, slots=slots, _host=self._host)
            pool = self._pools.setdefault(name, new_pool)
        if (pool.workers, pool.slots) != (workers, slots):
            raise ConfigError(
                f"local_pool {name}",
                f"workers={workers}, slots={slots}",
                f"workers={pool.workers}, slots={pool.slots}, with which the pool was made; "
                "use another name for another pool",
            )
        return pool

    @property
    def _cores(self) -> list[PoolCore]:
        return [pool._core for pool in tuple(self._pools.values())]

    @property
    def is_used(self) -> bool:
        """Whether the app has any pool."""
        return bool(self._pools)

    @property
    def calls(self) -> int:
        """How many calls wait or run. Calls that outlasted an earlier wait do not count."""
        return sum(core.queue.unfinished_in_time for core in self._cores)

    async def settle(self, timeout: float) -> None:
        """Wait for the present calls of all pools. The pools stay open.

        Calls that take longer, or whose wait is cancelled, are not waited for again.
        """
        await asyncio.gather(*(core.settle(timeout) for core in self._cores))

    def settle_blocking(self) -> None:
        """Do the same as `settle`, but block this thread."""
        ends_at = time.monotonic() + self._close_wait
        for core in self._cores:
            core.settle_blocking(max(ends_at - time.monotonic(), 0))

    async def close(self) -> None:
        """Drain all pools, because the app is closed. They take calls again once it is reopened."""
        cores = self._cores
        try:
            await asyncio.gather(
                *(
                    core.finish(core.close(include_overdue=False), self._close_wait)
                    for core in cores
                )
            )
        finally:
            for core in cores:
                core.reopen()
