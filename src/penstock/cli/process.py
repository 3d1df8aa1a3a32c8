"""How a command's process handles signals and Ctrl-C, notifies systemd, and ends."""

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

logger = logging.getLogger("penstock.work")
systemd_logger = logging.getLogger("penstock")

NOTIFY_SOCKET = "NOTIFY_SOCKET"

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# The names of threads that run handlers begin with this.
HANDLER_THREAD_PREFIX = "penstock"
THREAD_GRACE_S = 1.0
# After all parts have stopped, the app, the event loop and the interpreter need time to close.
CLOSE_LIMIT_S = 3.0
# After a third signal the stop may take this long.
FORCED_STOP_LIMIT_S = 1.0
# The last process that uses an embedded server also stops it.
SERVER_STOP_LIMIT_S = 10.0
T = TypeVar("T")
# A first Ctrl-C allows the stop of a worker, and some time for the rest.
STOP_LIMIT_S = Stopping().limit(has_pools=True) + 3.0
# A second Ctrl-C stops the event loop at once; this limit is for a loop that is blocked.
BLOCKED_LIMIT_S = 3.0


def notify_systemd(state: str) -> None:
    """Send `READY=1` or `STOPPING=1` to systemd, if the service has `Type=notify`."""
    path = os.environ.get(NOTIFY_SOCKET)
    if not path:
        return
    # An abstract socket is written with @, and its address begins with a zero byte.
    address = f"\0{path[1:]}" if path.startswith("@") else path
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.sendto(state.encode(), address)
    except OSError as error:
        systemd_logger.warning("Could not send %s to systemd: %s", state, error)


def leave_systemd_to_parent() -> None:
    """Stop this process from notifying systemd, because its parent does that for all processes."""
    os.environ.pop(NOTIFY_SOCKET, None)


class Part(Protocol):
    """Something that runs until it is asked to stop, such as a worker or a server."""

    def ask_to_stop(self) -> None:
        """Begin to stop; a second call hurries the stop."""

    def stop_limit(self, signals: int) -> float:
        """Return how many seconds the stop may take after this number of signals."""

    def last_words(self) -> None:
        """Log what still runs. Called in another thread just before the process ends."""


class StopSignals:
    """Stops all parts of a command on SIGTERM or SIGINT.

    The constructor installs the signal handlers, so that a signal also stops a command that is
    still starting. A second signal hurries the parts. After a third, or when the stop exceeds its
    limit, the process ends even if parts still run.
    """

    def __init__(
        self, what: str, database: Database | None = None, *, last_wait: float = FORCED_STOP_LIMIT_S
    ) -> None:
        self._what = what
        self._last_wait = last_wait
        self._parts: list[Part] = []
        self._asked = 0
        self._signals = 0
        self._starting: asyncio.Task[object] | None = None
        self._start_is_cancelled = False
        is_embedded = database is not None and database.url is None
        self._close_wait = CLOSE_LIMIT_S + (SERVER_STOP_LIMIT_S if is_embedded else 0.0)
        self._end = HardEnd(self._limit, self._report)
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self._signalled, number)
        self._end.listen(STOP_SIGNALS)
        reset_signals_in_forks()

    def add(self, part: Part) -> None:
        """Add a part to stop. If a stop was already requested, ask the part to stop now."""
        self._parts.append(part)
        if self._asked:
            part.ask_to_stop()

    def ask(self) -> None:
        """Ask all parts to stop, as a signal does."""
        self._asked += 1
        notify_systemd("STOPPING=1")
        self._end.allow(self._limit(self._asked))
        if self._starting is not None:
            self._start_is_cancelled = True
            self._starting.cancel()
        for part in self._parts:
            part.ask_to_stop()

    @property
    def is_asked(self) -> bool:
        return self._asked > 0

    def allow_seconds(self, seconds: float) -> None:
        """Limit a requested stop to this many more seconds, plus the time to close the app."""
        if self.is_asked:  # A drain that ends by itself may take its time in exit hooks.
            self._end.allow(seconds + self._close_wait)

    @contextmanager
    def cancelling_startup(self) -> Iterator[Callable[[], None]]:
        """Cancel this task if a stop is requested before the yielded function is called.

        with stop.cancelling_startup() as started:
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
            if not self._start_is_cancelled:
                raise
            task.uncancel()
            logger.info("The stop came before the start was complete.")
        finally:
            self._starting = None

    def _signalled(self, number: signal.Signals) -> None:
        self._signals += 1
        match self._asked:
            case 0:
                logger.info(
                    "Received %s: %s. A second signal hurries the stop.", number.name, self._what
                )
            case 1:
                logger.info(
                    "Received %s again: the stop is hurried. A third signal ends the process "
                    "at once.",
                    number.name,
                )
            case _:
                logger.warning("Received %s again: the process ends at once.", number.name)
        self._end.signalled(self._signals)
        self.ask()

    def _limit(self, signals: int) -> float:
        if signals > 2:
            return self._last_wait
        return sum(part.stop_limit(signals) for part in self._parts) + self._close_wait

    def _report(self) -> None:
        for part in self._parts:
            part.last_words()


def exit_process(code: int = 0) -> NoReturn:
    """End the process even if a handler never returns. A normal exit would wait for its thread."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    handler_threads = [thread for thread in threading.enumerate() if _runs_handlers(thread)]
    for thread in handler_threads:
        thread.join(THREAD_GRACE_S / len(handler_threads))
    running = sum(map(_runs_handlers, threading.enumerate()))
    if not running and not processes.unended:
        sys.exit(code)
    if running:
        logger.error("The process exits while handlers are still running in threads: %d.", running)
    for place in processes.unended:
        logger.error("The process exits while an asyncio task is still running, at %s.", place)
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)


def _runs_handlers(thread: threading.Thread) -> bool:
    return not thread.daemon and thread.name.startswith(HANDLER_THREAD_PREFIX)


def run_interruptible(main: Coroutine[Any, Any, T], message: str) -> T:
    """Run a command that executes jobs itself, in the same way as a worker process.

    The first Ctrl-C stops the command in order, and a second one stops it at once. Errors after
    Ctrl-C are raised as `Interrupted` with `message`, which says what happens to unfinished work.
    """
    runner, ctrl_c = processes.runner(), _CtrlC(message)
    threads = ThreadPoolExecutor(thread_name_prefix=processes.THREAD_NAME)
    runner.get_loop().set_default_executor(threads)
    try:
        try:
            return runner.run(ctrl_c.watched(main))
        finally:
            if not ctrl_c.number:
                runner.close()
            elif not ctrl_c.is_hurried:
                processes.end(runner, threads)
    except (Exception, asyncio.CancelledError) as error:
        # Errors after Ctrl-C come from the interruption itself, so they are not reported.
        if ctrl_c.number:
            raise Interrupted(message, at_once=ctrl_c.is_hurried or _has_running_work()) from error
        raise


def _has_running_work() -> bool:
    """Return whether a normal exit would wait for a thread, or warn of tasks that never ended."""
    current = threading.current_thread()
    threads = [
        thread for thread in threading.enumerate() if thread is not current and not thread.daemon
    ]
    return bool(threads or processes.unended)


class _CtrlC:
    """Counts how often Ctrl-C was pressed, and stops the command accordingly."""

    def __init__(self, message: str) -> None:
        self.number = 0
        self._end = _ForcedEnd(message)

    @property
    def is_hurried(self) -> bool:
        return self.number > 1

    async def watched(self, main: Coroutine[Any, Any, T]) -> T:
        """Run the command, and handle Ctrl-C from the start until the loop is closed."""
        task = asyncio.ensure_future(main)
        # A shell starts background jobs with SIGINT ignored, so that they go on.
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


class _ForcedEnd(HardEnd):
    """Ends the process if the stop exceeds its limit, or the event loop is blocked."""

    exit_code = Exit.INTERRUPTED

    def __init__(self, message: str) -> None:
        super().__init__(_stop_limit, lambda: None)
        self._message = message

    def last_words(self) -> None:
        say(self._message)


def _stop_limit(presses: int) -> float:
    if presses > 2:
        return 0.0
    return STOP_LIMIT_S if presses < 2 else BLOCKED_LIMIT_S
