"""A pool from its start to its end, as the public pool, the app and blocking code use it."""

from __future__ import annotations

import asyncio
import atexit
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from weakref import WeakSet

from penstock.forks import reset_in_forks
from penstock.local_pool.call import PoolCounts, SubmittedCall
from penstock.local_pool.loop import LoopSource, LoopThread
from penstock.local_pool.queue import CallQueue, PendingCalls
from penstock.local_pool.runner import DropLog, Runner
from penstock.telemetry import Events

# A close waits this long for calls to end, and then this long for those that it cancelled.
CLOSE_TIMEOUT_S = 5.0
CANCEL_TIMEOUT_S = 1.0


@dataclass(frozen=True)
class PoolHost:
    """What the app gives to a pool: events, a loop, and a function that prepares each call."""

    events: Events = field(default_factory=Events)
    make_loop_source: Callable[[], LoopSource] = LoopThread
    prepare_call: Callable[[SubmittedCall], None] | None = None


class PoolCore:
    """Takes calls until it is closed, and can be opened again."""

    def __init__(self, name: str, workers: int, slots: int, host: PoolHost) -> None:
        self._name = name
        self._workers = workers
        self._slots = slots
        self.host = host
        self.reset_after_fork()
        reset_in_forks(self)
        _cores.add(self)

    def reset_after_fork(self) -> None:
        """Forget all calls. In a forked child, the threads, loops and calls are the parent's."""
        self.queue = CallQueue(self._workers, self._slots)
        self._drops = DropLog(self._name, self.host.events)
        self._runner = self._make_runner()

    def _make_runner(self) -> Runner:
        return Runner(self._name, self.queue, self.host.make_loop_source(), self._drops)

    def take(self, call: SubmittedCall) -> bool:
        """Run a call now or later. Return False if it was dropped."""
        if self.host.prepare_call is not None:
            self.host.prepare_call(call)
        if call.is_async:
            call.loop = self._runner.loop()
        match self.queue.admit(call):
            case "begins":
                return self._runner.start(call)
            case "waits":
                return True
            case "dropped":
                self._drops.log(self.queue.dropped)
                return False

    def use_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run async calls on this loop."""
        self._runner.use_loop(loop)

    @property
    def counts(self) -> PoolCounts:
        self._runner.check_loop()
        return self.queue.counts

    @property
    def is_busy(self) -> bool:
        """Whether calls wait or run."""
        counts = self.counts
        return counts.waiting + counts.running > 0

    # The end

    def close(self, *, include_overdue: bool = True) -> PendingCalls:
        """Take no more calls.

        Return the calls that have not ended, so that the caller can wait for them. Without
        `include_overdue`, leave out calls that outlasted an earlier wait.
        """
        self._runner.check_loop()
        self.queue.closed = True
        return self.queue.wait(include_overdue=include_overdue)

    async def finish(self, wait: PendingCalls, timeout: float | None) -> int:
        """Wait for calls to end, and drop the rest. Return how many were dropped."""
        try:
            await wait.ends(timeout)
        finally:
            left = self.end()
        here = asyncio.get_running_loop()
        if tasks := [call.task for call in left if call.task and call.loop is here]:
            await asyncio.wait(tasks, timeout=CANCEL_TIMEOUT_S)
        return len(left)

    def end(self) -> list[SubmittedCall]:
        """Drop the calls that are left, and return them. Calls after a reopen get new threads."""
        runner, self._runner = self._runner, self._make_runner()
        return runner.end()

    def reopen(self) -> None:
        self.queue.closed = False

    # Wait, while the pool stays open

    async def settle(self, timeout: float) -> None:
        """Wait for the present calls to end. The pool takes new calls meanwhile.

        Calls that take longer than the timeout are overdue. Later calls of this method do not wait
        for them again.
        """
        self._runner.check_loop()
        wait, ended = self.queue.wait(include_overdue=False), False
        try:
            ended = await wait.ends(timeout)
        finally:
            if not ended:
                self.queue.mark_overdue(wait)

    def settle_blocking(self, timeout: float) -> None:
        """Do the same as `settle`, but block this thread."""
        wait = self.queue.wait_blocking()
        if not wait.wait_blocking(timeout):
            self.queue.mark_overdue(wait)


_cores: WeakSet[PoolCore] = WeakSet()


def _settle_all_at_exit() -> None:
    """Wait a moment at exit for the calls that a thread or a running loop can still finish."""
    ends_at = time.monotonic() + CLOSE_TIMEOUT_S
    for core in tuple(_cores):
        core.settle_blocking(max(ends_at - time.monotonic(), 0))


atexit.register(_settle_all_at_exit)
