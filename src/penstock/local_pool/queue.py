"""The calls of a pool: which wait, which run, and how the others ended."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Literal

from penstock.local_pool.call import PoolCounts, SubmittedCall

Admission = Literal["begins", "waits", "dropped"]
Outcome = Literal["done", "failed", "dropped"]
Calls = list[SubmittedCall]


class PendingCalls:
    """Some calls, and a future that is done once all of them have ended."""

    def __init__(self, calls: set[SubmittedCall]) -> None:
        self.calls = calls
        self.done: Future[None] = Future()
        self.resolve_if_done()

    def resolve_if_done(self) -> None:
        if not self.calls:
            with suppress(InvalidStateError):  # The waiting side has given up.
                self.done.set_result(None)

    async def ends(self, timeout: float | None) -> bool:
        """Wait until all calls have ended. Return False if the timeout comes first."""
        try:
            async with asyncio.timeout(timeout):
                await asyncio.wrap_future(self.done)
        except TimeoutError:
            return False
        return True

    def wait_blocking(self, timeout: float | None) -> bool:
        """Wait in this thread until all calls have ended.

        Return False if the timeout comes first.
        """
        try:
            self.done.result(timeout)
        except TimeoutError:
            self.done.cancel()
            return False
        return True


class CallQueue:
    """Holds the calls of a pool and counts them exactly, for any number of threads.

    Its lock is held for a few instructions only, and never while a user's code runs. The lock is
    reentrant, because a signal handler or a destructor may submit while this thread holds it.
    """

    def __init__(self, workers: int, slots: int) -> None:
        self._workers = workers
        self._slots = slots
        self._lock = threading.RLock()
        self._waiting: deque[SubmittedCall] = deque()
        self._running: set[SubmittedCall] = set()
        self._overdue: set[SubmittedCall] = set()
        self._waits: list[PendingCalls] = []
        self._submitted = 0
        self._ended: dict[Outcome, int] = {"done": 0, "failed": 0, "dropped": 0}
        self.closed = False

    @property
    def counts(self) -> PoolCounts:
        with self._lock:
            return PoolCounts(
                submitted=self._submitted,
                waiting=len(self._waiting),
                running=len(self._running),
                **self._ended,
            )

    @property
    def dropped(self) -> int:
        return self._ended["dropped"]

    @property
    def unfinished_in_time(self) -> int:
        """How many calls have not ended. Calls that outlasted an earlier wait do not count."""
        with self._lock:
            return len(self._running) + len(self._waiting) - len(self._overdue)

    def is_running(self, call: SubmittedCall) -> bool:
        """Return whether a call may run: it was started, and has not been dropped since."""
        return call in self._running

    # Start and end

    def admit(self, call: SubmittedCall) -> Admission:
        """Add a call. It begins now, waits for a free worker, or is dropped."""
        with self._lock:
            self._submitted += 1
            if not self.closed:
                if len(self._running) < self._workers:
                    self._running.add(call)
                    return "begins"
                if len(self._waiting) < self._slots:
                    self._waiting.append(call)
                    return "waits"
            self._ended["dropped"] += 1
            return "dropped"

    def end(self, call: SubmittedCall, outcome: Outcome) -> SubmittedCall | None:
        """Record the end of a call. Return the call that starts in its place, if any."""
        with self._lock:
            if call not in self._running:
                return None  # It was dropped before.
            self._remove({call}, outcome)
            next_call = self._start_waiting()
        return next_call[0] if next_call else None

    def drop_loop(self, loop: asyncio.AbstractEventLoop) -> tuple[Calls, Calls]:
        """Drop the calls of a loop that has ended.

        Return the dropped calls, and the calls that start in their place.
        """
        with self._lock:
            lost = [call for call in self._all() if call.loop is loop]
            self._drop(lost)
            return lost, self._start_waiting()

    def drop_all(self) -> list[SubmittedCall]:
        """Drop all calls that have not ended, and return them."""
        with self._lock:
            left = self._all()
            self._drop(left)
            return left

    def _drop(self, calls: list[SubmittedCall]) -> None:
        gone = set(calls)
        self._waiting = deque(call for call in self._waiting if call not in gone)
        self._remove(gone, "dropped")

    def _remove(self, calls: set[SubmittedCall], outcome: Outcome) -> None:
        self._ended[outcome] += len(calls)
        self._running -= calls
        self._overdue -= calls
        for wait in tuple(self._waits):
            wait.calls -= calls
            wait.resolve_if_done()
            if wait.done.done():
                self._waits.remove(wait)

    def _start_waiting(self) -> list[SubmittedCall]:
        taken = []
        while self._waiting and len(self._running) < self._workers:
            taken.append(call := self._waiting.popleft())
            self._running.add(call)
        return taken

    def _all(self) -> list[SubmittedCall]:
        return [*self._running, *self._waiting]

    # Wait

    def wait(self, *, include_overdue: bool = True) -> PendingCalls:
        """Return all calls that have not ended, so that the caller can wait for them.

        Without `include_overdue`, leave out calls that outlasted an earlier wait.
        """
        with self._lock:
            calls = set(self._all())
            return self._wait(calls if include_overdue else calls - self._overdue)

    def wait_blocking(self) -> PendingCalls:
        """Return the calls that can end while this thread waits, except overdue ones."""
        with self._lock:
            return self._wait({call for call in self._all() if call.may_end} - self._overdue)

    def _wait(self, calls: set[SubmittedCall]) -> PendingCalls:
        self._waits.append(wait := PendingCalls(calls))
        return wait

    def mark_overdue(self, wait: PendingCalls) -> None:
        """Remember calls that outlasted a wait, so that nothing waits for them again."""
        with self._lock:
            self._overdue |= wait.calls
