"""Handlers that block, in threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def in_thread(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a thread of the worker does for a handler."""
    try:
        return fn(*args, **kwargs)
    except StopIteration as error:
        # No future can carry it: on Python 3.11 the one who waits would wait for ever.
        raise RuntimeError("The handler raised StopIteration.") from error
