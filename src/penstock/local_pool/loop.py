"""The event loops on which async calls run."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Protocol

Loop = asyncio.AbstractEventLoop


class LoopSource(Protocol):
    """Finds the event loop for a pool's async calls."""

    def known(self) -> Loop | None:
        """Return a loop that already runs, or None. Each submit calls this, so it must not wait."""

    def find(self) -> Loop:
        """Return the event loop for async calls.

        A thread of the pool calls this when the pool knows no loop. It starts one, or waits for the
        thread that is starting one.
        """

    def release(self) -> None:
        """Release the loop: the pool needs it no longer."""


class LoopThread:
    """Runs an event loop in a thread of its own, for a program that has no loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._starting: Future[Loop] | None = None
        self._loop: Loop | None = None
        self._release_event: asyncio.Event | None = None
        self._released = False

    def known(self) -> Loop | None:
        return self._loop

    def find(self) -> Loop:
        with self._lock:
            if self._released:
                raise RuntimeError("The pool has been drained.")
            if (starting := self._starting) is None:
                starting = self._start_thread()
        return starting.result()  # Not under the lock: the pool may be drained meanwhile.

    def _start_thread(self) -> Future[Loop]:
        starting: Future[Loop] = Future()
        name = "penstock local loop"
        threading.Thread(target=self._run, args=(starting,), name=name, daemon=True).start()
        self._starting = starting
        return starting

    def release(self) -> None:
        with self._lock:
            self._released = True
            loop, self._loop = self._loop, None
            release_event, self._release_event = self._release_event, None
        if loop is not None and release_event is not None:
            loop.call_soon_threadsafe(release_event.set)

    def _run(self, starting: Future[Loop]) -> None:
        """Run the loop. If it cannot start, raise the error in the threads that wait for it."""
        try:
            with asyncio.Runner() as runner:
                runner.run(self._keep_running(starting))
        except BaseException as error:
            if starting.done():
                raise
            problem = RuntimeError(f"No event loop could be started: {error!r}.")
            starting.set_exception(problem)
        finally:
            with self._lock:
                self._starting = self._loop = self._release_event = None

    async def _keep_running(self, starting: Future[Loop]) -> None:
        with self._lock:
            if self._released:
                raise RuntimeError("The pool has been drained.")
            self._release_event = release_event = asyncio.Event()
            self._loop = loop = asyncio.get_running_loop()
        starting.set_result(loop)
        await release_event.wait()


def running_loop() -> Loop | None:
    """Return the loop that runs in this thread, or None."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
