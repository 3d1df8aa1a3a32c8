"""A bounded pool for small calls that may be dropped."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, ParamSpec, Self

from penstock.config import check_range
from penstock.local_pool.call import PoolCounts, SubmittedCall
from penstock.local_pool.core import CLOSE_TIMEOUT_S, PoolCore, PoolHost
from penstock.local_pool.loop import running_loop


class SyncLocalPool:
    """Waits for a pool in sync code: `pool.sync.idle()`, `pool.sync.drain(5)`."""

    def __init__(self, core: PoolCore) -> None:
        self._core = core

    def idle(self, timeout: float | None = None) -> None:
        """Wait until no call waits or runs; raise TimeoutError if that takes too long.

        For tests.
        """
        _refuse_inside_a_loop("idle")
        ends_at = None if timeout is None else time.monotonic() + timeout
        while self._core.is_busy:
            left = None if ends_at is None else max(ends_at - time.monotonic(), 0)
            if not self._core.queue.wait().wait_blocking(left):
                raise TimeoutError

    def drain(self, timeout: float | None = None) -> int:
        """Take no more calls, and wait for the present ones. Return how many were dropped."""
        _refuse_inside_a_loop("drain")
        self._core.close().wait_blocking(timeout)
        return len(self._core.end())


def _refuse_inside_a_loop(name: str) -> None:
    if running_loop() is not None:
        raise RuntimeError(
            f"pool.sync.{name} would block the event loop that runs in this thread. Use `await "
            f"pool.{name}()` instead."
        )


P = ParamSpec("P")

DEFAULT_POOL_WORKERS = 16
DEFAULT_POOL_SLOTS = 1024


class LocalPool:
    """Runs small calls in this process, beside the code that submits them. Nothing is stored.

        pool = app.local_pool()
        pool.submit(track, user, "opened")      # False if it was dropped

    At most `workers` calls run at once and `slots` more wait; further calls are dropped.
    Functions that await run on the app's event loop, others in threads.
    """

    def __init__(
        self,
        name: str = "local",
        *,
        workers: int = DEFAULT_POOL_WORKERS,
        slots: int = DEFAULT_POOL_SLOTS,
        _host: PoolHost | None = None,
    ) -> None:
        check_range("workers", workers, 1, 1000)
        check_range("slots", slots, 0, 1_000_000)
        self.name = name
        self.workers = workers
        self.slots = slots
        self._core = PoolCore(name, workers, slots, _host or PoolHost())

    def submit(self, fn: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> bool:
        """Call a function soon, in this context. Return False if the call was dropped.

        It never waits, and may be called anywhere: on a loop, in a thread, in a signal handler.
        What the function returns is ignored; what it raises is logged and counted.
        """
        return self._core.take(SubmittedCall(fn, args, kwargs))

    @property
    def counts(self) -> PoolCounts:
        """What became of the calls so far. `submitted` is the sum of the others."""
        return self._core.counts

    @property
    def is_busy(self) -> bool:
        """Whether calls wait or run."""
        return self._core.is_busy

    @property
    def sync(self) -> SyncLocalPool:
        """`idle` and `drain` for sync code."""
        return SyncLocalPool(self._core)

    async def idle(self, timeout: float | None = None) -> None:
        """Wait until no call waits or runs; raise TimeoutError if that takes too long.

        For tests.
        """
        async with asyncio.timeout(timeout):
            while self.is_busy:
                await asyncio.wrap_future(self._core.queue.wait().done)

    async def drain(self, timeout: float | None = None) -> int:
        """Take no more calls, and wait for the present ones. Return how many were dropped.

        When the timeout is over, waiting calls are dropped, tasks are cancelled and threads are
        abandoned. An app's pool takes calls again once the app has been closed.
        """
        return await self._core.finish(self._core.close(), timeout)

    async def __aenter__(self) -> Self:
        self._core.use_loop(asyncio.get_running_loop())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.drain(CLOSE_TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.sync.drain(CLOSE_TIMEOUT_S)
