"""Texts that calls of this process are at, so that no other call asks for them too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import TypeAlias

Key: TypeAlias = "tuple[str, str, bytes]"  # Tenant, embedder, hash.


class InFlight:
    """Who is at a text, and when it is through with it."""

    def __init__(self) -> None:
        self._calls: dict[Key, asyncio.Event] = {}

    @asynccontextmanager
    async def taken(
        self, keys: Iterable[Key]
    ) -> AsyncIterator[tuple[set[Key], dict[Key, asyncio.Event]]]:
        """Take the texts that nobody is at; of the others, what tells when they are free."""
        wanted = list(keys)
        others = {key: self._calls[key] for key in wanted if key in self._calls}
        own = {key for key in wanted if key not in others}
        through = asyncio.Event()
        self._calls.update(dict.fromkeys(own, through))
        try:
            yield own, others
        finally:
            for key in own:
                del self._calls[key]
            through.set()
