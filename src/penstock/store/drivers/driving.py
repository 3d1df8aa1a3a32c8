"""Run a coroutine that never waits, without an event loop."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def drive(coroutine: Coroutine[Any, Any, T]) -> T:
    """The coroutine's result. On a blocking adapter no question waits, so one step is all of it."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise RuntimeError(
        "This call waits, which it cannot do inside your transaction: a job that you wait for "
        "here would not even begin before your commit. Call it on app.sync, after the commit."
    )
