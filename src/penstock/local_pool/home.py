"""Where calls that await are run."""

from __future__ import annotations

import asyncio
import threading
from typing import Protocol


class Home(Protocol):
    """Knows an event loop, or finds one."""

    def known(self) -> asyncio.AbstractEventLoop | None:
        """A loop that runs already; asked by whoever submits, so it must not wait."""

    def find(self) -> asyncio.AbstractEventLoop:
        """A loop where none is known; asked in a thread of the pool."""

    def leave(self) -> None:
        """The pool needs no loop any more."""


class OwnLoop:
    """A loop in a thread of the pool's own, for a program that has none."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._leaving: asyncio.Event | None = None
        self._left = False

    def known(self) -> asyncio.AbstractEventLoop | None:
        return self._loop

    def find(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._left:
                raise RuntimeError("The pool has been drained.")
            if self._loop is None:
                runs = threading.Event()
                threading.Thread(
                    target=self._run, args=(runs,), name="penstock local loop", daemon=True
                ).start()
                runs.wait()
            assert self._loop is not None
            return self._loop

    def leave(self) -> None:
        with self._lock:
            self._left = True
            loop, self._loop = self._loop, None
            leaving, self._leaving = self._leaving, None
        if loop is not None and leaving is not None:
            loop.call_soon_threadsafe(leaving.set)

    def _run(self, runs: threading.Event) -> None:
        with asyncio.Runner() as runner:
            runner.run(self._stay(runs))

    async def _stay(self, runs: threading.Event) -> None:
        self._leaving = leaving = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        runs.set()
        await leaving.wait()


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The loop that runs in this thread."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
