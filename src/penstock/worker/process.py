"""A process that is ours alone: the event loop it runs on, and how it collects garbage."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

# A claim makes thousands of small objects that die with their jobs, without a cycle among them.
# With Python's own threshold the collector looks at them again and again: a tenth of the time.
GARBAGE = (100_000, 50, 100)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a whole process."""
    with runner() as own:
        return own.run(main)


def runner() -> asyncio.Runner:
    """Runs a whole process: on uvloop where there is one, with a collector that is seldom called.

    A worker inside somebody's program leaves both as it finds them.
    """
    gc.freeze()
    gc.set_threshold(*GARBAGE)
    if sys.platform == "win32":
        return asyncio.Runner()
    import uvloop

    return asyncio.Runner(loop_factory=uvloop.new_event_loop)
