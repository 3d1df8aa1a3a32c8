"""Where calls that await are run."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Protocol

Loop = asyncio.AbstractEventLoop


class Home(Protocol):
    """Knows an event loop, or finds one."""

    def known(self) -> Loop | None:
        """A loop that runs already; asked by whoever submits, so it must not wait."""

    def find(self) -> Loop:
        """A loop where none is known; asked in a thread of the pool."""

    def leave(self) -> None:
        """The pool needs no loop any more."""


class OwnLoop:
    """A loop in a thread of the pool's own, for a program that has none."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: Future[Loop] | None = None
        self._loop: Loop | None = None
        self._leaving: asyncio.Event | None = None
        self._left = False

    def known(self) -> Loop | None:
        return self._loop

    def find(self) -> Loop:
        with self._lock:
            if self._left:
                raise RuntimeError("The pool has been drained.")
            if (made := self._made) is None:
                made = self._begin()
        return made.result()  # Not under the lock: the pool may be drained meanwhile.

    def _begin(self) -> Future[Loop]:
        made: Future[Loop] = Future()
        name = "penstock local loop"
        threading.Thread(target=self._run, args=(made,), name=name, daemon=True).start()
        self._made = made
        return made

    def leave(self) -> None:
        with self._lock:
            self._left = True
            loop, self._loop = self._loop, None
            leaving, self._leaving = self._leaving, None
        if loop is not None and leaving is not None:
            loop.call_soon_threadsafe(leaving.set)

    def _run(self, made: Future[Loop]) -> None:
        """Whatever happens, those who wait for the loop are told."""
        try:
            with asyncio.Runner() as runner:
                runner.run(self._stay(made))
        except BaseException as error:
            if made.done():
                raise
            problem = RuntimeError(f"No event loop could be started: {error!r}.")
            made.set_exception(problem)
        finally:
            with self._lock:
                self._made = self._loop = self._leaving = None

    async def _stay(self, made: Future[Loop]) -> None:
        with self._lock:
            if self._left:
                raise RuntimeError("The pool has been drained.")
            self._leaving = leaving = asyncio.Event()
            self._loop = loop = asyncio.get_running_loop()
        made.set_result(loop)
        await leaving.wait()


def running_loop() -> Loop | None:
    """The loop that runs in this thread."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
