"""Handlers that run in threads, and their way to the worker's event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import wait as wait_for
from typing import Any, TypeVar

T = TypeVar("T")

# A waiting thread checks this often whether the loop is still there.
CHECK_INTERVAL_S = 0.2


class Bridge:
    """Runs coroutines for handlers in threads, on the loop in which the bridge was created."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop, wait for it in this thread, and return its result."""
        if threading.get_ident() == self._thread:
            coroutine.close()
            raise RuntimeError(
                "ctx.sync would block the event loop in which this handler runs. Await instead: "
                "`async with ctx.budget(…)`, `await ctx.step(…)`."
            )
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:  # The loop is closed, and the worker with it.
            coroutine.close()
            raise
        while True:
            wait_for([future], CHECK_INTERVAL_S)
            if future.done():
                return future.result()
            if self._loop.is_closed():
                # The loop ended before it began the coroutine.
                raise RuntimeError("The worker has stopped.")


def call_in_thread(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a handler in a thread. Replace StopIteration, which a future cannot carry."""
    try:
        return fn(*args, **kwargs)
    except StopIteration as error:
        # No future can carry it: on Python 3.11 the waiter would wait for ever.
        raise RuntimeError("The handler raised StopIteration.") from error
