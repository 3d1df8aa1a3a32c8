"""Ends a process that is ours when its stop takes longer than it may.

A thread does this, which needs neither the event loop (a handler may block it), nor a lease, nor
the database. It hears of signals from Python's C handler, through a pipe: while a handler is in
a C function, such as a driver that waits for its database, Python calls no handlers of signals.

What it cannot help is a C function that never lets go of the interpreter's lock: then no thread
runs, and only SIGKILL ends the process.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress

from penstock.worker.whereabouts import dump_stacks

logger = logging.getLogger("penstock.work")

EXIT_CUT_SHORT = 71
LOOK = 0.25
# A look that comes later than this was kept waiting: the process was stopped or suspended.
LOOK_LATE = 1.0
# To say what did not end, and to give back the lease.
REPORT_WAIT = 2.0


class HardEnd(threading.Thread):
    """`limit(n)` says how long the stop may take after the n-th signal, `report` what goes on."""

    exit_code = EXIT_CUT_SHORT

    def __init__(self, limit: Callable[[int], float], report: Callable[[], object]) -> None:
        super().__init__(name="penstock hard end", daemon=True)
        self._limit = limit
        self._report = report
        self._lock = threading.Lock()
        self._deadline: float | None = None
        self._signals = 0
        self._heard = 0
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        os.set_blocking(self._writing, False)
        self._passed_on_to = -1
        self._numbers: frozenset[int] = frozenset()

    def listen(self, numbers: Collection[signal.Signals]) -> None:
        """Hear of these signals, which the event loop must handle already; it still does."""
        self._numbers = frozenset(numbers)
        self._passed_on_to = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        self.start()

    def signalled(self, count: int) -> None:
        """So many signals have come so far. The event loop tells this, too: somebody may have taken
        Python's only pipe for signals away."""
        with self._lock:
            if count <= self._signals:
                return
            self._signals = count
        self.allow(self._limit(count))

    def allow(self, seconds: float) -> None:
        """The stop may take so long from now on, but not longer than was said before."""
        deadline = time.monotonic() + seconds
        with self._lock:
            if self._deadline is None or deadline < self._deadline:
                self._deadline = deadline
        with suppress(OSError):
            os.write(self._writing, b"\0")

    # The thread

    def run(self) -> None:
        while True:
            looked = time.monotonic()
            wait = None if self._deadline is None else LOOK
            if select.select([self._reading], [], [], wait)[0]:
                self._read()
            now = time.monotonic()
            with self._lock:
                if wait is not None and self._deadline is not None and now - looked > LOOK_LATE:
                    # The process stood still; now everything in it gets its time.
                    self._deadline += now - looked
                is_over = self._deadline is not None and now >= self._deadline
            if is_over:
                self._end()

    def _read(self) -> None:
        with suppress(OSError):
            signals = os.read(self._reading, 4096).replace(b"\0", b"")
            if signals and self._passed_on_to >= 0:
                os.write(self._passed_on_to, signals)
            self._heard += sum(number in self._numbers for number in signals)
        self.signalled(self._heard)

    def _end(self) -> None:
        # A log may be blocked, too: whoever reads it, or a lock that another thread has.
        reporting = threading.Thread(target=self.last_words, name="penstock report", daemon=True)
        with suppress(RuntimeError):
            reporting.start()
            reporting.join(REPORT_WAIT)
        os._exit(self.exit_code)

    def last_words(self) -> None:
        """Say that the process ends now, and what still runs."""
        logger.critical(
            "The stop exceeded its time limit, or a third signal arrived. The process exits now "
            "with code %d. Still running:",
            EXIT_CUT_SHORT,
        )
        dump_stacks()
        self._report()
        logging.shutdown()
        sys.stdout.flush()
