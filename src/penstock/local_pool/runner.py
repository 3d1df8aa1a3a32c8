"""Runs calls: in threads, or on an event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from functools import partial

from penstock.local_pool.drops import Drops
from penstock.local_pool.home import Home, running_loop
from penstock.local_pool.ledger import End, Ledger
from penstock.local_pool.submitted import SubmittedCall, Unawaited
from penstock.local_pool.threads import Threads

logger = logging.getLogger("penstock.local_pool")


class Runner:
    """Starts the calls whose turn it is, and with the end of each the next one.

    It lasts until its pool is drained: then threads that never return are left to themselves.
    """

    def __init__(self, pool: str, ledger: Ledger, home: Home, drops: Drops) -> None:
        self._pool = pool
        self._ledger = ledger
        self._home = home
        self._drops = drops
        self._threads = Threads(pool)
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, call: SubmittedCall | None) -> bool:
        """Start a call whose turn it is. One that cannot be is dropped, and the next one tried."""
        is_first = True
        while call is not None:
            try:
                self._hand_over(call)
                return is_first
            except RuntimeError:  # Python ends and starts no more threads; or the loop has ended.
                call = self._ended(call, "dropped")
                is_first = False
        return False

    def _hand_over(self, call: SubmittedCall) -> None:
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

    def _ended(self, call: SubmittedCall, how: End) -> SubmittedCall | None:
        following = self._ledger.end(call, how)
        self._drops.tell(self._ledger.dropped)
        return following

    def _failed(self, call: SubmittedCall, error: BaseException) -> End:
        """Say so, by the error's type: a message, other than ours, may hold what no log should."""
        kind = type(error).__name__
        what = f"{kind}: {error}" if isinstance(error, Unawaited) else f"{kind}."
        told = "In the pool %s %r failed with %s"
        logger.warning(told, self._pool, call, what, extra={"pool": self._pool})
        logger.debug(told, self._pool, call, what, exc_info=error, extra={"pool": self._pool})
        return "failed"

    # In threads

    def _run_in_thread(self, call: SubmittedCall) -> None:
        following: SubmittedCall | None = call
        while following is not None and not following.is_async:
            following = self._ended(following, self._outcome(following))
        self.start(following)

    def _outcome(self, call: SubmittedCall) -> End:
        if not self._ledger.is_running(call):
            return "dropped"
        try:
            call.run()
        except BaseException as error:
            return self._failed(call, error)
        return "done"

    # On a loop

    def _run_on_loop(self, call: SubmittedCall) -> None:
        assert call.loop is not None
        name = f"penstock {self._pool}"
        call.task = call.loop.create_task(self._awaited(call), name=name, context=call.context)
        call.task.add_done_callback(partial(self._task_ended, call))
        if not self._ledger.is_running(call):
            call.task.cancel()

    async def _awaited(self, call: SubmittedCall) -> None:
        how: End = "done"
        try:
            await call.run_async()
        except GeneratorExit:
            raise
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and _is_told_to_stop():
                raise
            how = self._failed(call, error)
        self.start(self._ended(call, how))

    def _task_ended(self, call: SubmittedCall, task: asyncio.Task[None]) -> None:
        """If it has not said how, it was cancelled, and not by us: by itself, or with its loop."""
        if not self._ledger.is_running(call) or call.loop is None:
            return
        if _is_ending(call.loop):
            self._lose(call.loop)
        else:
            self.start(self._ended(call, "dropped"))

    # Which loop

    def stay_on(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The pool's loop: its home's, else the one that a call came from first."""
        loop = self._loop
        if loop is not None and loop.is_running():
            return loop
        found = self._home.known() or running_loop()
        if found is not None and found is not loop:
            self._loop = found
            if loop is not None:
                self._lose(loop)
        self.look()
        return self._loop

    def look(self) -> None:
        """What was on a loop that is closed will never end."""
        loop = self._loop
        if loop is not None and loop.is_closed():
            self._lose(loop)

    def _find_loop(self, call: SubmittedCall) -> None:
        """In a thread: the program has no loop, so one is started, or awaited."""
        try:
            self._loop = self._home.find()
        except Exception:
            if self._ledger.is_running(call):
                logger.exception("The pool %s has found no event loop.", self._pool)
            self.start(self._ended(call, "dropped"))
        else:
            self.start(call)

    def _lose(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._loop is loop:
            self._loop = None
        lost, following = self._ledger.lose(loop)
        _cancel(lost)
        self._drops.tell(self._ledger.dropped)
        for call in following:
            self.start(call)

    # The end

    def end(self) -> list[SubmittedCall]:
        """Drop what has not ended; what was dropped."""
        left = self._ledger.give_up()
        _cancel(left)
        self._threads.end()
        self._home.leave()
        self._drops.tell(self._ledger.dropped, now=True)
        return left


def _is_told_to_stop() -> bool:
    """Whether somebody has cancelled this task; a CancelledError may also come from what it
    awaits, and then it is an error like others."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _is_ending(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether a loop that has cancelled a task is about to end: then it has cancelled all."""
    return all(task.cancelling() for task in asyncio.all_tasks(loop))


def _cancel(calls: Iterable[SubmittedCall]) -> None:
    for call in calls:
        if call.task is not None and call.loop is not None and not call.loop.is_closed():
            call.loop.call_soon_threadsafe(call.task.cancel)
