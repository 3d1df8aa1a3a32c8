"""Cache values for a short time, so that many concurrent requests share one database query."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class CachedValue(Generic[T]):
    """Fetches a value at most once in `seconds`, however many callers ask. Caches no errors."""

    def __init__(self, seconds: float, fetch: Callable[[], Awaitable[T]]) -> None:
        self._seconds = seconds
        self._fetch = fetch
        self._lock = asyncio.Lock()
        # When the value was fetched, and the value.
        self._cached: tuple[float, T] | None = None

    async def __call__(self) -> T:
        async with self._lock:
            if self._cached is None or time.monotonic() - self._cached[0] >= self._seconds:
                self._cached = None
                value = await self._fetch()
                self._cached = (time.monotonic(), value)
            return self._cached[1]


class KeyedCache(Generic[T]):
    """Fetches the value of each key once in `seconds`, however many callers ask at the same time.

    A key without a value is not cached. Otherwise wrong keys could push valid ones out.
    """

    def __init__(
        self, fetch: Callable[[str], Awaitable[T | None]], *, seconds: float, max_keys: int
    ) -> None:
        self._fetch = fetch
        self._seconds = seconds
        self._max_keys = max_keys
        # By key: when the value expires, and the value.
        self._cached: dict[str, tuple[float, T]] = {}
        self._fetching: dict[str, asyncio.Task[T | None]] = {}

    async def get(self, key: str, *, fresh: bool = False) -> T | None:
        """Return the value of a key, or None. With `fresh` it is fetched even if it is cached."""
        if fresh:
            return await self._fetch_and_cache(key)
        cached = self._cached.get(key)
        if cached is not None and cached[0] > time.monotonic():
            return cached[1]
        task = self._fetching.get(key)
        if task is None:
            task = self._fetching[key] = asyncio.create_task(self._fetch_for_all(key))
        # A caller that is cancelled must not cancel the fetch of the others.
        return await asyncio.shield(task)

    def forget(self, key: str) -> None:
        self._cached.pop(key, None)

    async def _fetch_for_all(self, key: str) -> T | None:
        try:
            return await self._fetch_and_cache(key)
        finally:
            del self._fetching[key]

    async def _fetch_and_cache(self, key: str) -> T | None:
        # The value may change while it is fetched, so its time runs from before that.
        expires_at = time.monotonic() + self._seconds
        value = await self._fetch(key)
        self._cached.pop(key, None)
        if value is not None:
            self._cached[key] = (expires_at, value)
            while len(self._cached) > self._max_keys:
                del self._cached[next(iter(self._cached))]
        return value
