"""Where in the code something is that does not end."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any


def where(future: asyncio.Future[Any] | None) -> str:
    """The line that a task waits at: `shop.py:12 in send`. May be asked from any thread."""
    coroutine: Any = future.get_coro() if isinstance(future, asyncio.Task) else None
    place = "a place that is not known"
    while inspect.iscoroutine(coroutine):
        if (frame := coroutine.cr_frame) is not None:
            place = f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
        coroutine = coroutine.cr_await
    return place
