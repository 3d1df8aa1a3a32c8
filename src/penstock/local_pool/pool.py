"""A bounded pool for small calls that may be dropped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, ParamSpec, Self

from penstock.config import between
from penstock.local_pool.life import CLOSE_WAIT, Host, Life
from penstock.local_pool.submitted import PoolCounts, SubmittedCall
from penstock.local_pool.sync import SyncLocalPool

P = ParamSpec("P")

WORKERS = 16
SLOTS = 1024


class LocalPool:
    """Runs calls beside what submits them, in this process alone: nothing is stored.

        pool = app.local_pool()
        pool.submit(track, user, "opened")      # False if it was dropped

    So many `workers` run at once, and so many more wait in `slots`; what comes then is dropped.
    Functions that await run on the app's event loop, others in threads.
    """

    def __init__(
        self,
        name: str = "local",
        *,
        workers: int = WORKERS,
        slots: int = SLOTS,
        _host: Host | None = None,
    ) -> None:
        between("workers", workers, 1, 1000)
        between("slots", slots, 0, 1_000_000)
        self.name = name
        self.workers = workers
        self.slots = slots
        self._life = Life(name, workers, slots, _host or Host())

    def submit(self, fn: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> bool:
        """Have a function called soon, in this context; False if the call was dropped.

        Never waits, and may be called from anywhere: a loop, a thread, a signal handler. What the
        function returns is forgotten, what it raises is logged and counted.
        """
        return self._life.take(SubmittedCall(fn, args, kwargs))

    @property
    def counts(self) -> PoolCounts:
        """What has become of the calls so far; `submitted` is the sum of the others."""
        return self._life.counts

    @property
    def is_busy(self) -> bool:
        """Whether calls wait or run."""
        return self._life.is_busy

    @property
    def sync(self) -> SyncLocalPool:
        """`idle` and `drain` for code that does not await."""
        return SyncLocalPool(self._life)

    async def idle(self, timeout: float | None = None) -> None:
        """Wait until nothing waits or runs; TimeoutError if that takes too long. For tests."""
        async with asyncio.timeout(timeout):
            while self.is_busy:
                await asyncio.wrap_future(self._life.ledger.wait().over)

    async def drain(self, timeout: float | None = None) -> int:
        """Take no more calls, and wait for those there are; how many were dropped in the end.

        When the time is over, those that wait are dropped, tasks are cancelled, and threads left to
        themselves. The pool of an app takes calls again once the app has been closed.
        """
        return await self._life.finish(self._life.close(), timeout)

    async def __aenter__(self) -> Self:
        self._life.stay_on(asyncio.get_running_loop())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.drain(CLOSE_WAIT)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.sync.drain(CLOSE_WAIT)
