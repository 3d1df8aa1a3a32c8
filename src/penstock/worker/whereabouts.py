"""Finds out where code is that does not come to an end. Safe to call from any thread."""

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

# How many calls are shown: the handler's is among them.
MAX_CALLS_SHOWN = 3


def describe_place(future: asyncio.Future[Any] | None) -> str:
    """Return the line at which a task waits, and who called it: `shop.py:12 in send, …`."""
    coroutine: Any = future.get_coro() if isinstance(future, asyncio.Task) else None
    places: list[str] = []
    while inspect.iscoroutine(coroutine):
        if (frame := coroutine.cr_frame) is not None:
            code = frame.f_code
            places.append(f"{code.co_filename}:{frame.f_lineno} in {code.co_name}")
        coroutine = coroutine.cr_await
    return ", called by ".join(places[: -MAX_CALLS_SHOWN - 1 : -1]) or "a place that is not known"


def find_attempt(thread: int) -> Attempt | None:
    """Return the attempt whose async handler a thread runs, or None.

    The attempt is found in the executor's stack frame.
    """
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
        logger.warning("The stacks could not be dumped, since stderr is no file: %r", error)
