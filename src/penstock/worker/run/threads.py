"""Handlers that block, in threads, and their way to the worker's event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import wait as wait_for
from typing import Any, TypeVar

T = TypeVar("T")

# So often a thread that waits looks whether the loop is still there.
LOOK = 0.2


class Bridge:
    """Runs coroutines of handlers in threads on the loop that it was made in."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The coroutine's result, for a handler in a thread, which waits for it."""
        if threading.get_ident() == self._thread:
            coroutine.close()
            raise RuntimeError(
                "ctx.sync blocks, and this handler runs in the event loop, which would stand still:"
                " `async with ctx.budget(…)`, `await ctx.step(…)`."
            )
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:  # The loop is closed, and the worker with it.
            coroutine.close()
            raise
        while True:
            wait_for([future], LOOK)
            if future.done():
                return future.result()
            if self._loop.is_closed():
                # It ended before it began what it was just given.
                raise RuntimeError("The worker has stopped.")


def in_thread(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a thread of the worker does for a handler."""
    try:
        return fn(*args, **kwargs)
    except StopIteration as error:
        # No future can carry it: on Python 3.11 the one who waits would wait for ever.
        raise RuntimeError("The handler raised StopIteration.") from error
