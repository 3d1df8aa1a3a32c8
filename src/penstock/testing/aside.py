"""Running a coroutine to its end from code that blocks, whatever loop runs or does not run here."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def run_aside(coroutine: Coroutine[Any, Any, T]) -> T:
    """The coroutine's result, from a thread and a loop of its own: those here do not notice."""
    with ThreadPoolExecutor(1, thread_name_prefix="penstock aside") as thread:
        return thread.submit(asyncio.run, coroutine).result()
