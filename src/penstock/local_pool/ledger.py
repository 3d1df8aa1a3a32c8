"""Who waits, who runs, and what became of the others."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Literal

from penstock.local_pool.submitted import PoolCounts, SubmittedCall

Admission = Literal["begins", "waits", "dropped"]
End = Literal["done", "failed", "dropped"]
Some = list[SubmittedCall]


class Wait:
    """Somebody waits for some calls to end."""

    def __init__(self, calls: set[SubmittedCall]) -> None:
        self.calls = calls
        self.over: Future[None] = Future()
        self.told()

    def told(self) -> None:
        if not self.calls:
            with suppress(InvalidStateError):  # Whoever waited has given up.
                self.over.set_result(None)

    async def ends(self, timeout: float | None) -> bool:
        """Wait until all have ended; False if the time is over before."""
        try:
            async with asyncio.timeout(timeout):
                await asyncio.wrap_future(self.over)
        except TimeoutError:
            return False
        return True

    def ends_blocking(self, timeout: float | None) -> bool:
        """The same, in a thread that may wait."""
        try:
            self.over.result(timeout)
        except TimeoutError:
            self.over.cancel()
            return False
        return True


class Ledger:
    """Counts calls, exactly, for any number of threads.

    Its lock is held for a few instructions and never while anybody else's code runs. It can be
    taken twice by one thread: a signal handler or a destructor may submit in the middle of it.
    """

    def __init__(self, workers: int, slots: int) -> None:
        self._workers = workers
        self._slots = slots
        self._lock = threading.RLock()
        self._waiting: deque[SubmittedCall] = deque()
        self._running: set[SubmittedCall] = set()
        self._overdue: set[SubmittedCall] = set()
        self._waits: list[Wait] = []
        self._submitted = 0
        self._ended: dict[End, int] = {"done": 0, "failed": 0, "dropped": 0}
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
    def timely(self) -> int:
        """How many have not ended, without those that were waited for in vain."""
        with self._lock:
            return len(self._running) + len(self._waiting) - len(self._overdue)

    def is_running(self, call: SubmittedCall) -> bool:
        """Whether it should run: it has its turn, and nobody has given it up."""
        return call in self._running

    # Coming and going

    def admit(self, call: SubmittedCall) -> Admission:
        """A call comes: its turn may be now or later, or it is dropped."""
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

    def end(self, call: SubmittedCall, how: End) -> SubmittedCall | None:
        """A call has ended; the one whose turn it is now."""
        with self._lock:
            if call not in self._running:
                return None  # It was given up before.
            self._leave({call}, how)
            following = self._take()
        return following[0] if following else None

    def lose(self, loop: asyncio.AbstractEventLoop) -> tuple[Some, Some]:
        """A loop has ended: the calls that are dropped with it, and those whose turn it is now."""
        with self._lock:
            lost = [call for call in self._all() if call.loop is loop]
            self._drop(lost)
            return lost, self._take()

    def give_up(self) -> list[SubmittedCall]:
        """Drop all that has not ended."""
        with self._lock:
            left = self._all()
            self._drop(left)
            return left

    def _drop(self, calls: list[SubmittedCall]) -> None:
        gone = set(calls)
        self._waiting = deque(call for call in self._waiting if call not in gone)
        self._leave(gone, "dropped")

    def _leave(self, calls: set[SubmittedCall], how: End) -> None:
        self._ended[how] += len(calls)
        self._running -= calls
        self._overdue -= calls
        for wait in tuple(self._waits):
            wait.calls -= calls
            wait.told()
            if wait.over.done():
                self._waits.remove(wait)

    def _take(self) -> list[SubmittedCall]:
        taken = []
        while self._waiting and len(self._running) < self._workers:
            taken.append(call := self._waiting.popleft())
            self._running.add(call)
        return taken

    def _all(self) -> list[SubmittedCall]:
        return [*self._running, *self._waiting]

    # Waiting for them

    def wait(self, *, again: bool = True) -> Wait:
        """For all that has not ended yet; unless `again`, without what was waited for in vain."""
        with self._lock:
            calls = set(self._all())
            return self._wait(calls if again else calls - self._overdue)

    def wait_blocking(self) -> Wait:
        """For what can end while this thread waits and was not waited for in vain."""
        with self._lock:
            return self._wait({call for call in self._all() if call.may_end} - self._overdue)

    def _wait(self, calls: set[SubmittedCall]) -> Wait:
        self._waits.append(wait := Wait(calls))
        return wait

    def waited_in_vain(self, wait: Wait) -> None:
        """Its time is over, and nobody should wait for these again."""
        with self._lock:
            self._overdue |= wait.calls
