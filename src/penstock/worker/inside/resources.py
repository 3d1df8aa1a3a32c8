"""The resources of a child process: opened when a task first needs them, closed with the child."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from penstock.errors import ResourceMissing
from penstock.worker.resources import Opener

R = TypeVar("R")

logger = logging.getLogger("penstock.resources")


class Inner:
    """What one child has open."""

    def __init__(self, openers: dict[type[Any], Opener]) -> None:
        self._openers = openers
        self._open: dict[type[Any], Any] = {}
        self._stack = AsyncExitStack()

    def get(self, kind: type[R]) -> R:
        try:
            found: R = self._open[kind]
        except KeyError:
            raise ResourceMissing(kind.__name__) from None
        return found

    def missing(self, kinds: Iterable[type[Any]]) -> list[str]:
        return [kind.__name__ for kind in kinds if kind not in self._open]

    async def need(self, kinds: Iterable[type[Any]]) -> None:
        """Open those that are not; one that cannot be opened stays missing."""
        for kind in kinds:
            if kind in self._open or (opener := self._openers.get(kind)) is None:
                continue
            try:
                self._open[kind] = await self._stack.enter_async_context(opener())
            except Exception as error:
                logger.error(
                    "The resource %s could not be opened in a child process: %r",
                    kind.__name__,
                    error,
                )

    async def close(self) -> None:
        await self._stack.aclose()
