"""An answer that many ask for and that is looked up seldom."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Fresh(Generic[T]):
    """Looks at most once in so many seconds, however many ask; an error is not kept."""

    def __init__(self, seconds: float, look: Callable[[], Awaitable[T]]) -> None:
        self._seconds = seconds
        self._look = look
        self._lock = asyncio.Lock()
        self._kept: tuple[float, T] | None = None

    async def __call__(self) -> T:
        async with self._lock:
            if self._kept is None or time.monotonic() - self._kept[0] >= self._seconds:
                self._kept = None
                answer = await self._look()
                self._kept = (time.monotonic(), answer)
            return self._kept[1]
