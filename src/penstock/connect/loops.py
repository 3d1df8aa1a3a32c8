"""Run coroutines for code that has no event loop."""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

from penstock.connect.connector import Connector
from penstock.forks import reset_in_forks

T = TypeVar("T")


class BlockingPortal:
    """Run coroutines on the event loop in which the app is open, or on a loop in a new thread.

    It is safe to use from many threads at once. In a forked child it starts a new thread, since
    threads and connections belong to the parent. While no call is running, another event loop may
    take over the app.
    """

    def __init__(
        self, connector: Connector, close: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        self._connector = connector
        self._close = close
        # Called before the app is closed here, to wait for code that may still make calls.
        self.before_close: Callable[[], None] = _nothing
        self.reset_after_fork()
        reset_in_forks(self)
        connector.close_if_idle = self.close_if_idle

    def reset_after_fork(self) -> None:
        """Reset the portal to a state without a thread.

        A forked child does this too, because another thread of the parent may have held the lock.
        """
        atexit.unregister(self.close)
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._under_way = 0

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result. The calling thread waits for it."""
        with self._call():
            try:
                _refuse_inside_a_loop()
                future = asyncio.run_coroutine_threadsafe(coroutine, self._running_loop())
            except BaseException:
                coroutine.close()
                raise
            return _result(future)

    def loop(self) -> asyncio.AbstractEventLoop:
        """Return the event loop of the app. If it has none, start a thread with a new loop."""
        with self._call():
            return self._running_loop()

    def close(self) -> None:
        """Close the app and end the thread. An app that is open in another loop stays open."""
        self.before_close()
        with self._lock:
            self._end()

    def close_if_idle(self) -> None:
        """Close the app if this portal has opened it and no call is running."""
        if self._loop is not None:
            self.before_close()
        with self._lock:
            if not self._under_way:
                self._end()

    def _end(self) -> None:
        """Close the app and end the thread.

        The caller holds the lock, so that a call that begins meanwhile finds the app closed, not
        half open.
        """
        loop, self._loop = self._loop, None
        thread, self._thread = self._thread, None
        atexit.unregister(self.close)
        if loop is not None and thread is not None:
            asyncio.run_coroutine_threadsafe(self._close(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    @contextmanager
    def _call(self) -> Iterator[None]:
        """Count a call while it runs. The portal keeps the app open until the call has ended."""
        with self._lock:
            self._under_way += 1
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= 1

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is not None:
                return self._loop
            shared = self._connector.loop
            if shared is not None and shared.is_running():
                return shared
            return self._start()

    def _start(self) -> asyncio.AbstractEventLoop:
        self._loop = loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=_run_for_ever, args=(loop,), name="penstock sync", daemon=True
        )
        self._thread.start()
        # At the end of a script, this sends the last notification and releases the server.
        atexit.register(self.close)
        return loop


class AppLoop:
    """Finds the event loop for calls of local pools: the loop of the app or of `app.sync`."""

    def __init__(self, connector: Connector, portal: BlockingPortal) -> None:
        self._connector = connector
        self._portal = portal

    def known(self) -> asyncio.AbstractEventLoop | None:
        loop = self._connector.loop
        return loop if loop is not None and loop.is_running() else None

    def find(self) -> asyncio.AbstractEventLoop:
        return self._portal.loop()

    def release(self) -> None:
        """The app owns this loop, so the pool does not close it."""


def _run_for_ever(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def _refuse_inside_a_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        "app.sync would block the event loop that runs in this thread. Await the same call on "
        "the app itself."
    )


def _result(future: Future[T]) -> T:
    try:
        return future.result()
    except BaseException:
        # After Ctrl-C, for example, nobody waits for the answer any more.
        future.cancel()
        raise


def _nothing() -> None:
    """Do nothing, for a portal that has nothing to wait for before it closes."""
