"""How the process of a command hears of signals and Ctrl-C, tells systemd, and ends."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, NoReturn, Protocol, TypeVar

from penstock.cli.errors import Interrupted
from penstock.cli.framework import Exit
from penstock.cli.output import say
from penstock.config import Database, Stopping
from penstock.forks import reset_signals_in_forks
from penstock.worker import processes
from penstock.worker.stop import HardEnd

systemd_logger = logging.getLogger("penstock")

PLACE = "NOTIFY_SOCKET"


def tell_systemd(state: str) -> None:
    """`READY=1`, `STOPPING=1`; nobody is told where nobody asked."""
    place = os.environ.get(PLACE)
    if not place:
        return
    # An abstract name is written with an @, and begins with a zero byte.
    address = f"\0{place[1:]}" if place.startswith("@") else place
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.sendto(state.encode(), address)
    except OSError as error:
        systemd_logger.warning("systemd could not be told %s: %s", state, error)


def leave_to_parent() -> None:
    """Tell systemd nothing: the parent process speaks for all."""
    os.environ.pop(PLACE, None)


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
        tell_systemd("STOPPING=1")
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
