"""A bounded pool for small calls that may be dropped."""

from __future__ import annotations

import asyncio
import atexit
import os
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, ParamSpec, Self
from weakref import WeakSet

from penstock.config import between
from penstock.events import Events
from penstock.local_pool.call import Call, PoolCounts
from penstock.local_pool.drops import Drops
from penstock.local_pool.home import Home, OwnLoop
from penstock.local_pool.ledger import Ledger, Wait
from penstock.local_pool.runner import Runner
from penstock.local_pool.sync import SyncLocalPool

P = ParamSpec("P")

WORKERS = 16
SLOTS = 1024
# How long a close waits for what has not ended, and then for what it has cancelled.
CLOSE_WAIT = 5.0
CLEAN_UP = 1.0


class LocalPool:
    """Runs calls beside what submits them, in this process alone: nothing is stored.

        pool = app.local_pool()
        pool.submit(track, user, "opened")      # False if it was dropped

    So many `workers` run at once, and so many more wait in `slots`; what comes then is dropped.
    Functions that await run on the app's event loop, others in threads.
    """

    def __init__(self, name: str = "local", *, workers: int = WORKERS, slots: int = SLOTS) -> None:
        between("workers", workers, 1, 1000)
        between("slots", slots, 0, 1_000_000)
        self.name = name
        self.workers = workers
        self.slots = slots
        self._events = Events()
        self._make_home: Callable[[], Home] = OwnLoop
        self._dress: Callable[[Call], None] | None = None
        self._begin()
        _all.add(self)

    def _begin(self) -> None:
        self._ledger = Ledger(self.workers, self.slots)
        self._drops = Drops(self.name, self._events)
        self._runner = self._make_runner()

    def _move(
        self,
        events: Events,
        make_home: Callable[[], Home],
        dress: Callable[[Call], None] | None,
    ) -> None:
        """Live with an app: tell its events, use its loop."""
        self._events, self._make_home, self._dress = events, make_home, dress
        self._begin()

    def _make_runner(self) -> Runner:
        return Runner(self.name, self._ledger, self._make_home(), self._drops)

    def submit(self, fn: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> bool:
        """Have a function called soon, in this context; False if the call was dropped.

        Never waits, and may be called from anywhere: a loop, a thread, a signal handler. What the
        function returns is forgotten, what it raises is logged and counted.
        """
        call = Call(fn, args, kwargs)
        if self._dress is not None:
            self._dress(call)
        if call.is_async:
            call.loop = self._runner.loop()
        match self._ledger.admit(call):
            case "begins":
                return self._runner.start(call)
            case "waits":
                return True
            case "dropped":
                self._drops.tell(self._ledger.dropped)
                return False

    @property
    def counts(self) -> PoolCounts:
        """What has become of the calls so far; `submitted` is the sum of the others."""
        self._runner.look()
        return self._ledger.counts

    @property
    def is_busy(self) -> bool:
        """Whether calls wait or run."""
        counts = self.counts
        return counts.waiting + counts.running > 0

    @property
    def sync(self) -> SyncLocalPool:
        """`idle` and `drain` for code that does not await."""
        return SyncLocalPool(self)

    async def idle(self, timeout: float | None = None) -> None:
        """Wait until nothing waits or runs; TimeoutError if that takes too long. For tests."""
        async with asyncio.timeout(timeout):
            while self.is_busy:
                await asyncio.wrap_future(self._ledger.wait().over)

    async def drain(self, timeout: float | None = None) -> int:
        """Take no more calls, and wait for those there are; how many were dropped in the end.

        When the time is over, those that wait are dropped, tasks are cancelled, and threads left to
        themselves. The pool of an app takes calls again once the app has been closed.
        """
        return await self._finish(self._close(), timeout)

    def _close(self, *, again: bool = True) -> Wait:
        self._runner.look()
        self._ledger.closed = True
        return self._ledger.wait(again=again)

    async def _finish(self, wait: Wait, timeout: float | None) -> int:
        try:
            await wait.ends(timeout)
        finally:
            left = self._end()
        here = asyncio.get_running_loop()
        if tasks := [call.task for call in left if call.task and call.loop is here]:
            await asyncio.wait(tasks, timeout=CLEAN_UP)
        return len(left)

    def _end(self) -> list[Call]:
        """Drop what is left. Should calls be taken again, they have threads of their own."""
        runner, self._runner = self._runner, self._make_runner()
        return runner.end()

    async def _settle(self, timeout: float) -> None:
        """Wait for what there is now, once, and take more meanwhile."""
        self._runner.look()
        wait, ended = self._ledger.wait(again=False), False
        try:
            ended = await wait.ends(timeout)
        finally:
            if not ended:
                self._ledger.waited_in_vain(wait)

    def _settle_blocking(self, timeout: float) -> None:
        wait = self._ledger.wait_blocking()
        if not wait.ends_blocking(timeout):
            self._ledger.waited_in_vain(wait)

    async def __aenter__(self) -> Self:
        self._runner.stay_on(asyncio.get_running_loop())
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


_all: WeakSet[LocalPool] = WeakSet()


def _begin_anew() -> None:
    """In a forked child: threads, loops and the calls in them are its parent's."""
    for pool in tuple(_all):
        pool._begin()


def _finish_all() -> None:
    """A program that just ends has its last calls made, where somebody can still make them."""
    ends_at = time.monotonic() + CLOSE_WAIT
    for pool in tuple(_all):
        pool._settle_blocking(max(ends_at - time.monotonic(), 0))


os.register_at_fork(after_in_child=_begin_anew)
atexit.register(_finish_all)
