"""Where in the code something is that does not end. May be asked from any thread."""

from __future__ import annotations

import asyncio
import faulthandler
import inspect
import logging
import sys
from types import FrameType
from typing import Any

from penstock.worker.attempt import Attempt

logger = logging.getLogger("penstock.worker")

# How many calls are told: that of the handler is among them.
CALLS = 3


def where(future: asyncio.Future[Any] | None) -> str:
    """The line that a task waits at, and who called that: `shop.py:12 in send, …`."""
    coroutine: Any = future.get_coro() if isinstance(future, asyncio.Task) else None
    places: list[str] = []
    while inspect.iscoroutine(coroutine):
        if (frame := coroutine.cr_frame) is not None:
            code = frame.f_code
            places.append(f"{code.co_filename}:{frame.f_lineno} in {code.co_name}")
        coroutine = coroutine.cr_await
    return ", called by ".join(places[: -CALLS - 1 : -1]) or "a place that is not known"


def attempt_in(thread: int) -> Attempt | None:
    """The attempt whose async handler a thread is in: found in the frame of the executor."""
    frame: FrameType | None = sys._current_frames().get(thread)
    while frame is not None:
        attempt = frame.f_locals.get("attempt") if frame.f_code.co_name == "_on_loop" else None
        if isinstance(attempt, Attempt):
            return attempt
        frame = frame.f_back
    return None


def dump_stacks() -> None:
    """Write the stacks of all threads to stderr."""
    try:
        faulthandler.dump_traceback(all_threads=True)
    except (AttributeError, OSError, RuntimeError, ValueError) as error:
        logger.warning("The stacks could not be dumped, stderr is no file: %r", error)
