"""Answers that are kept for a moment, so that many requests cost one question to the database."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class CachedValue(Generic[T]):
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


class KeyedCache(Generic[T]):
    """Asks once for each key while an answer is fresh, however many want it at once.

    That something is not there is not remembered: it would only be forgotten answers that fill
    the room.
    """

    def __init__(
        self, ask: Callable[[str], Awaitable[T | None]], *, seconds: float, most: int
    ) -> None:
        self._ask = ask
        self._seconds = seconds
        self._most = most
        self._known: dict[str, tuple[float, T]] = {}
        self._asked: dict[str, asyncio.Task[T | None]] = {}

    async def get(self, key: str, *, afresh: bool = False) -> T | None:
        """The answer, which may be a remembered one unless it is wanted `afresh`."""
        if afresh:
            return await self._learn(key)
        found = self._known.get(key)
        if found is not None and found[0] > time.monotonic():
            return found[1]
        task = self._asked.get(key)
        if task is None:
            task = self._asked[key] = asyncio.create_task(self._learn_for_all(key))
        # Whoever gives up does not take the answer from the others.
        return await asyncio.shield(task)

    def forget(self, key: str) -> None:
        self._known.pop(key, None)

    async def _learn_for_all(self, key: str) -> T | None:
        try:
            return await self._learn(key)
        finally:
            del self._asked[key]

    async def _learn(self, key: str) -> T | None:
        until = time.monotonic() + self._seconds
        answer = await self._ask(key)
        self._known.pop(key, None)
        if answer is not None:
            self._known[key] = (until, answer)
            while len(self._known) > self._most:
                del self._known[next(iter(self._known))]
        return answer
