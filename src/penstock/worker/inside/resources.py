"""The resources of a child process: opened when a task first needs them, closed with the child."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import Any

from penstock.config import Database
from penstock.worker.resources import Offers, Opener, opening

logger = logging.getLogger("penstock.resources")


class Inner(Offers):
    """What one child has open."""

    def __init__(self, openers: dict[type[Any], Opener], database: Database) -> None:
        super().__init__()
        self._openers = openers
        self._database = database
        self._opening: dict[type[Any], asyncio.Future[None]] = {}
        self._stack = AsyncExitStack()

    async def need(self, kinds: Iterable[type[Any]], seconds: float) -> None:
        """Open those that are not; one that cannot be opened stays missing, and one that takes
        longer than so many seconds until it is open."""
        until = time.monotonic() + seconds
        for kind in kinds:
            if kind in self._open or kind not in self._openers:
                continue
            if kind not in self._opening:
                self._opening[kind] = asyncio.ensure_future(self._enter(kind))
            await asyncio.wait([self._opening[kind]], timeout=max(0.0, until - time.monotonic()))
            if kind in self._opening:
                logger.error(
                    "The resource %s takes longer than %g s to open in a child process.",
                    kind.__name__,
                    seconds,
                )

    async def _enter(self, kind: type[Any]) -> None:
        try:
            opener = opening(self._openers[kind], self._database)
            self._open[kind] = await self._stack.enter_async_context(opener)
        except (Exception, asyncio.CancelledError) as error:
            logger.error(
                "The resource %s could not be opened in a child process: %r", kind.__name__, error
            )
        finally:
            del self._opening[kind]

    async def close(self) -> None:
        for each in list(self._opening.values()):
            each.cancel()
        await self._stack.aclose()
