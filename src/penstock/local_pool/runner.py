"""Runs calls: in threads, or on an event loop."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from queue import SimpleQueue
from threading import Thread

from penstock.local_pool.call import SubmittedCall, Unawaited
from penstock.local_pool.loop import LoopSource, running_loop
from penstock.local_pool.queue import CallQueue, Outcome
from penstock.telemetry import CallsDropped, Events

Work = Callable[[], None]


class ThreadPool:
    """Threads that are started when none is idle, and reused. The caller limits their number.

    They are daemons, so Python exits without waiting for one that never returns. They share only a
    deque and a SimpleQueue, which are reentrant and need no lock. So `run` may be called anywhere,
    even in a signal handler. Starting a thread takes Python's own locks until the thread is up.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._work: SimpleQueue[Work | None] = SimpleQueue()
        self._idle: deque[None] = deque()
        self._all: list[Thread] = []
        self._ended = False

    def run(self, work: Work) -> None:
        """Do work in a thread. The work must not raise.

        Raises RuntimeError if Python starts no more threads.
        """
        try:
            self._idle.pop()
        except IndexError:
            self._add(work)
        else:
            self._work.put(work)

    def end(self) -> None:
        """End each thread once it has no more work."""
        self._ended = True
        for _ in self._all:
            self._work.put(None)

    def _add(self, work: Work) -> None:
        thread = Thread(target=self._serve, args=(work,), name=f"penstock {self._name}")
        thread.daemon = True
        thread.start()
        self._all.append(thread)

    def _serve(self, work: Work | None) -> None:
        while work is not None:
            work()
            if self._ended:
                return
            work = None  # An idle thread keeps nothing alive.
            self._idle.append(None)
            work = self._work.get()


logger = logging.getLogger("penstock.local_pool")

DROP_LOG_INTERVAL_S = 60.0


class DropLog:
    """Logs dropped calls, at most once a minute."""

    def __init__(self, pool: str, events: Events) -> None:
        self._pool = pool
        self._events = events
        self._lock = threading.RLock()
        self._logged = 0
        self._next_log_at = 0.0

    def log(self, dropped: int, *, now: bool = False) -> None:
        """Log how many calls were dropped since the last log line, at most once a minute.

        With `now`, log them even if the last line is more recent.
        """
        if dropped <= self._logged or (time.monotonic() < self._next_log_at and not now):
            return
        with self._lock:
            self._next_log_at = time.monotonic() + DROP_LOG_INTERVAL_S
            count, self._logged = dropped - self._logged, max(dropped, self._logged)
        if count > 0:
            logger.warning(
                "The pool %s has dropped calls: %d.", self._pool, count, extra={"pool": self._pool}
            )
            self._events.emit(CallsDropped(self._pool, count))


class Runner:
    """Starts calls. When a call ends, it starts the next one that waits.

    A pool uses one runner until it is drained. Threads that never return are then abandoned.
    """

    def __init__(
        self, pool: str, queue: CallQueue, loop_source: LoopSource, drops: DropLog
    ) -> None:
        self._pool = pool
        self._queue = queue
        self._loop_source = loop_source
        self._drops = drops
        self._threads = ThreadPool(pool)
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, call: SubmittedCall | None) -> bool:
        """Start a call. If the call cannot start, drop it and try the next one that waits.

        Return whether the call that was passed in was started.
        """
        is_first = True
        while call is not None:
            try:
                self._dispatch(call)
                return is_first
            except RuntimeError:  # Python is exiting and starts no threads, or the loop has ended.
                call = self._finish(call, "dropped")
                is_first = False
        return False

    def _dispatch(self, call: SubmittedCall) -> None:
        if not call.is_async:
            self._threads.run(partial(self._run_in_thread, call))
        elif (loop := call.loop or self._loop) is None:
            self._threads.run(partial(self._find_loop, call))
        else:
            call.loop = loop
            if loop is running_loop():
                self._run_on_loop(call)
            else:
                loop.call_soon_threadsafe(self._run_on_loop, call, context=call.context)

    def _finish(self, call: SubmittedCall, outcome: Outcome) -> SubmittedCall | None:
        next_call = self._queue.end(call, outcome)
        self._drops.log(self._queue.dropped)
        return next_call

    def _log_failure(self, call: SubmittedCall, error: BaseException) -> Outcome:
        """Log an error by its type only: its message may hold data that must not be logged."""
        kind = type(error).__name__
        description = f"{kind}: {error}" if isinstance(error, Unawaited) else f"{kind}."
        message = "In the pool %s %r failed with %s"
        logger.warning(message, self._pool, call, description, extra={"pool": self._pool})
        logger.debug(
            message, self._pool, call, description, exc_info=error, extra={"pool": self._pool}
        )
        return "failed"

    # In threads

    def _run_in_thread(self, call: SubmittedCall) -> None:
        next_call: SubmittedCall | None = call
        while next_call is not None and not next_call.is_async:
            next_call = self._finish(next_call, self._run(next_call))
        self.start(next_call)

    def _run(self, call: SubmittedCall) -> Outcome:
        if not self._queue.is_running(call):
            return "dropped"
        try:
            call.run()
        except BaseException as error:
            return self._log_failure(call, error)
        return "done"

    # On a loop

    def _run_on_loop(self, call: SubmittedCall) -> None:
        assert call.loop is not None
        name = f"penstock {self._pool}"
        call.task = call.loop.create_task(self._awaited(call), name=name, context=call.context)
        call.task.add_done_callback(partial(self._task_ended, call))
        if not self._queue.is_running(call):
            call.task.cancel()

    async def _awaited(self, call: SubmittedCall) -> None:
        outcome: Outcome = "done"
        try:
            await call.run_async()
        except GeneratorExit:
            raise
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and _is_being_cancelled():
                raise
            outcome = self._log_failure(call, error)
        self.start(self._finish(call, outcome))

    def _task_ended(self, call: SubmittedCall, task: asyncio.Task[None]) -> None:
        """Drop a call whose task has ended while the call is still listed as running.

        Either the call cancelled its own task, or the ending loop did.
        """
        if not self._queue.is_running(call) or call.loop is None:
            return
        if _is_ending(call.loop):
            self._drop_loop(call.loop)
        else:
            self.start(self._finish(call, "dropped"))

    # Which loop

    def use_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def loop(self) -> asyncio.AbstractEventLoop | None:
        """Return the loop for async calls: the app's, or else the first that submitted a call."""
        loop = self._loop
        if loop is not None and loop.is_running():
            return loop
        new_loop = self._loop_source.known() or running_loop()
        if new_loop is not None and new_loop is not loop:
            self._loop = new_loop
            if loop is not None:
                self._drop_loop(loop)
        self.check_loop()
        return self._loop

    def check_loop(self) -> None:
        """Drop the calls of a loop that is closed: they would never end."""
        loop = self._loop
        if loop is not None and loop.is_closed():
            self._drop_loop(loop)

    def _find_loop(self, call: SubmittedCall) -> None:
        """Start a loop or wait for one, in a thread, because the program has none yet."""
        try:
            self._loop = self._loop_source.find()
        except Exception:
            if self._queue.is_running(call):
                logger.exception(
                    "The pool %s has dropped a call, because no event loop could be started for "
                    "it.",
                    self._pool,
                )
            self.start(self._finish(call, "dropped"))
        else:
            self.start(call)

    def _drop_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._loop is loop:
            self._loop = None
        lost, next_call = self._queue.drop_loop(loop)
        _cancel(lost)
        self._drops.log(self._queue.dropped)
        for call in next_call:
            self.start(call)

    # The end

    def end(self) -> list[SubmittedCall]:
        """Drop all calls that have not ended, end the threads, and return the dropped calls."""
        left = self._queue.drop_all()
        _cancel(left)
        self._threads.end()
        self._loop_source.release()
        self._drops.log(self._queue.dropped, now=True)
        return left


def _is_being_cancelled() -> bool:
    """Return whether this task is being cancelled.

    A CancelledError may also come from what the task awaits. Then it is an error like any other.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _is_ending(loop: asyncio.AbstractEventLoop) -> bool:
    """Return whether a loop is about to end: it has then cancelled all of its tasks."""
    return all(task.cancelling() for task in asyncio.all_tasks(loop))


def _cancel(calls: Iterable[SubmittedCall]) -> None:
    for call in calls:
        if call.task is not None and call.loop is not None and not call.loop.is_closed():
            call.loop.call_soon_threadsafe(call.task.cancel)
