"""How a command that runs until it is asked to stop hears of that, and how its process ends."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn, Protocol

from penstock.cli import supervisor
from penstock.config import Database
from penstock.forks import reset_signals_in_forks
from penstock.worker import processes
from penstock.worker.stop import HardEnd

logger = logging.getLogger("penstock.work")

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
THREADS = "penstock"  # how the names of the threads that run handlers begin
THREAD_GRACE = 1.0
# What the rest may take after all parts have stopped: the app, the event loop, the interpreter.
CLOSE_WAIT = 3.0
# What is left of the stop after a third signal.
LAST_WAIT = 1.0
# An embedded server stops with the last process that uses it.
SERVER_WAIT = 10.0


class Part(Protocol):
    """Something that runs until it is asked to stop."""

    def ask_to_stop(self) -> None:
        """Stop; asked again, hurry."""

    def stop_limit(self, signals: int) -> float:
        """How many seconds its stop may take after so many signals."""

    def last_words(self) -> None:
        """The process is about to end: say what has not ended. Called in another thread."""


class Stop:
    """Tells all that runs to stop: at SIGTERM and SIGINT, from the very start of a command.

    A second signal hurries. After the third, or when the stop takes longer than it may, the process
    ends whatever still runs.
    """

    def __init__(
        self, what: str, database: Database | None = None, *, last_wait: float = LAST_WAIT
    ) -> None:
        self._what = what
        self._last_wait = last_wait
        self._parts: list[Part] = []
        self._asked = 0
        self._signals = 0
        self._starting: asyncio.Task[object] | None = None
        self._is_broken_off = False
        is_embedded = database is not None and database.url is None
        self._close_wait = CLOSE_WAIT + (SERVER_WAIT if is_embedded else 0.0)
        self._end = HardEnd(self._limit, self._report)
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self._signalled, number)
        self._end.listen(STOP_SIGNALS)
        reset_signals_in_forks()

    def tell(self, part: Part) -> None:
        """From now on tell this part, too; at once, if a stop was asked for meanwhile."""
        self._parts.append(part)
        if self._asked:
            part.ask_to_stop()

    def ask(self) -> None:
        """Stop as after a signal."""
        self._asked += 1
        supervisor.tell("STOPPING=1")
        self._end.allow(self._limit(self._asked))
        if self._starting is not None:
            self._is_broken_off = True
            self._starting.cancel()
        for part in self._parts:
            part.ask_to_stop()

    @property
    def is_asked(self) -> bool:
        return self._asked > 0

    def takes(self, seconds: float) -> None:
        """The last part says how long its stop may still take."""
        if self.is_asked:  # A drain that ends by itself may linger in hooks at exit.
            self._end.allow(seconds + self._close_wait)

    @contextmanager
    def breaks_off_start(self) -> Iterator[Callable[[], None]]:
        """Inside, a stop cancels this task until what is given is called: everything has started.

        with stop.breaks_off_start() as started:
            async with app:
                started()
                await worker.run()
        """
        self._starting = task = asyncio.current_task()
        assert task is not None

        def started() -> None:
            self._starting = None

        try:
            yield started
        except asyncio.CancelledError:
            if not self._is_broken_off:
                raise
            task.uncancel()
            logger.info("Stopped before it had started.")
        finally:
            self._starting = None

    def _signalled(self, number: signal.Signals) -> None:
        self._signals += 1
        match self._asked:
            case 0:
                logger.info("%s: %s; a second one hurries it.", number.name, self._what)
            case 1:
                logger.info("%s again: the stop is hurried; a third ends it.", number.name)
            case _:
                logger.warning("%s again: the process ends at once.", number.name)
        self._end.signalled(self._signals)
        self.ask()

    def _limit(self, signals: int) -> float:
        if signals > 2:
            return self._last_wait
        return sum(part.stop_limit(signals) for part in self._parts) + self._close_wait

    def _report(self) -> None:
        for part in self._parts:
            part.last_words()


def leave(code: int = 0) -> NoReturn:
    """End the process, also when a handler never ends: Python would wait for its thread."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    stuck = [each for each in threading.enumerate() if _is_handlers(each)]
    for each in stuck:
        each.join(THREAD_GRACE / len(stuck))
    left = sum(map(_is_handlers, threading.enumerate()))
    if not left and not processes.unended:
        sys.exit(code)
    if left:
        logger.error("The process leaves although handlers still run in threads: %d.", left)
    for place in processes.unended:
        logger.error("The process leaves although a task does not end; it is at %s.", place)
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)


def _is_handlers(thread: threading.Thread) -> bool:
    return not thread.daemon and thread.name.startswith(THREADS)
