"""A way for code without an event loop to have coroutines run."""

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
    """Runs coroutines on the loop that the app is open in, else on a thread of its own.

    Safe to use from many threads at once. A forked child begins anew: threads and connections
    are its parent's. Once its own thread is idle, it gives way to a loop that wants the app.
    """

    def __init__(
        self, connector: Connector, close: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        self._connector = connector
        self._close = close
        # What may still want to make calls is waited for before the app is closed here.
        self.before_close: Callable[[], None] = _nothing
        self.reset_after_fork()
        reset_in_forks(self)
        connector.give_way = self.give_way

    def reset_after_fork(self) -> None:
        """Have no thread; also in a forked child, where another thread may have held the lock."""
        atexit.unregister(self.close)
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._under_way = 0

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The coroutine's result; the calling thread waits for it."""
        with self._call():
            try:
                _refuse_inside_a_loop()
                future = asyncio.run_coroutine_threadsafe(coroutine, self._running_loop())
            except BaseException:
                coroutine.close()
                raise
            return _result(future)

    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop for who has none: that of the app, else of a thread that is started for it."""
        with self._call():
            return self._running_loop()

    def close(self) -> None:
        """Close the app and end the thread, if there is one; an app open elsewhere stays open."""
        self.before_close()
        with self._lock:
            self._end()

    def give_way(self) -> None:
        """Close the app, if it is open here and no call is under way."""
        if self._loop is not None:
            self.before_close()
        with self._lock:
            if not self._under_way:
                self._end()

    def _end(self) -> None:
        """With the lock held: a call that comes meanwhile finds the app closed, not half open."""
        loop, self._loop = self._loop, None
        thread, self._thread = self._thread, None
        atexit.unregister(self.close)
        if loop is not None and thread is not None:
            asyncio.run_coroutine_threadsafe(self._close(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    @contextmanager
    def _call(self) -> Iterator[None]:
        """A call is under way, for which the app stays open here."""
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
        # A script that just ends has its last notification sent, and its server released.
        atexit.register(self.close)
        return loop


class AppLoop:
    """Where the calls of local pools await: the loop of the app, else that of `app.sync`."""

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
        "app.sync blocks, and this thread runs an event loop, which would stand still. "
        "Here, await the same call on the app itself."
    )


def _result(future: Future[T]) -> T:
    try:
        return future.result()
    except BaseException:
        # Ctrl-C and the like: nobody waits for the answer any more.
        future.cancel()
        raise


def _nothing() -> None:
    """Nobody is waited for."""
