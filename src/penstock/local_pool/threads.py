"""Threads for calls that block."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread

Work = Callable[[], None]


class Threads:
    """Started when work finds none idle, and used again. Their user says how many there can be.

    They are daemons: Python ends without waiting for one that never returns. What they share needs
    no lock of ours: a deque and a SimpleQueue may be used in the middle of themselves, so work can
    be given from anywhere, a signal handler included. Only to start a thread takes locks of
    Python's own, for as long as it needs to come up.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._given: SimpleQueue[Work | None] = SimpleQueue()
        self._idle: deque[None] = deque()
        self._all: list[Thread] = []
        self._ended = False

    def run(self, work: Work) -> None:
        """Have work done that raises nothing; RuntimeError if Python starts no more threads."""
        try:
            self._idle.pop()
        except IndexError:
            self._add(work)
        else:
            self._given.put(work)

    def end(self) -> None:
        """Let every thread end once it has nothing to do."""
        self._ended = True
        for _ in self._all:
            self._given.put(None)

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
            work = self._given.get()
