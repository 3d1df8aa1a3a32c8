"""Ctrl-C, for commands that work themselves: once ends them in good order, twice at once."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from penstock.cli.errors import Interrupted
from penstock.cli.exits import Exit
from penstock.cli.output import say
from penstock.config import Stopping
from penstock.forks import reset_signals_in_forks
from penstock.worker import processes
from penstock.worker.stop import HardEnd

T = TypeVar("T")

# How long the good order may take: the stop of a worker, and a moment for the rest.
STOP_LIMIT_S = Stopping().limit(has_pools=True) + 3.0
# A second Ctrl-C ends what runs at once, unless something blocks the event loop.
BLOCKED_LIMIT_S = 3.0


def alone(main: Coroutine[Any, Any, T], told: str) -> T:
    """Run a command that works itself: the process is its own, and runs as workers do.

    `told` says after Ctrl-C what becomes of what is half done. The process ends then, whatever
    still runs.
    """
    own, presses = processes.runner(), _Presses(told)
    threads = ThreadPoolExecutor(thread_name_prefix=processes.THREADS)
    own.get_loop().set_default_executor(threads)
    try:
        try:
            return own.run(presses.watched(main))
        finally:
            if not presses.number:
                own.close()
            elif not presses.is_hurried:
                processes.end(own, threads)
    except (Exception, asyncio.CancelledError) as error:
        # What breaks while it ends is nothing to tell.
        if presses.number:
            raise Interrupted(told, at_once=presses.is_hurried or _something_runs()) from error
        raise


def _something_runs() -> bool:
    """Whether Python would wait for a thread, or tell of tasks that never ended."""
    this = threading.current_thread()
    threads = [one for one in threading.enumerate() if one is not this and not one.daemon]
    return bool(threads or processes.unended)


class _Presses:
    """Counts them, and passes on what they mean."""

    def __init__(self, told: str) -> None:
        self.number = 0
        self._end = _End(told)

    @property
    def is_hurried(self) -> bool:
        return self.number > 1

    async def watched(self, main: Coroutine[Any, Any, T]) -> T:
        """Run it, told of Ctrl-C from the very start, and until its loop is closed."""
        task = asyncio.ensure_future(main)
        # A shell's job in the background is meant to go on.
        if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
            with suppress(NotImplementedError):  # Windows
                asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._pressed, task)
                self._end.listen([signal.SIGINT])
                reset_signals_in_forks()
        return await task

    def _pressed(self, task: asyncio.Task[Any]) -> None:
        self.number += 1
        self._end.signalled(self.number)
        if self.is_hurried:
            asyncio.get_running_loop().stop()
        else:
            task.cancel()


class _End(HardEnd):
    """Ends the process when the good order takes longer than it may, or the loop is blocked."""

    exit_code = Exit.INTERRUPTED

    def __init__(self, told: str) -> None:
        super().__init__(_limit, lambda: None)
        self._told = told

    def last_words(self) -> None:
        say(self._told)


def _limit(presses: int) -> float:
    if presses > 2:
        return 0.0
    return STOP_LIMIT_S if presses < 2 else BLOCKED_LIMIT_S
