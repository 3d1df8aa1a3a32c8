"""Says once why nothing comes in."""

from __future__ import annotations

import time
from collections.abc import Sequence

from penstock.cli.stalls import Stall, stalls_of
from penstock_apps.knowledge.cli.screen import Screen
from penstock_apps.knowledge.library import Library

# So long without a document, and as long until the next look.
STILL = 5.0
SEEN = 1000


class Stalling:
    """Looks for what is in the way, once nothing has come in for a while."""

    def __init__(
        self, library: Library, sources: Sequence[int], screen: Screen, still: float = STILL
    ) -> None:
        self._library = library
        self._sources = sources
        self._screen = screen
        self._still = still
        self._left: int | None = None
        self._due = 0.0
        self._told: set[str] = set()

    async def look(self, left: int) -> None:
        """So many are still to come."""
        if left != self._left:
            self._left, self._due = left, time.monotonic() + self._still
        elif time.monotonic() >= self._due:
            for each in await stalls_of(self._library.runtime.app, await self._jobs()):
                if each.kind not in self._told:
                    self._told.add(each.kind)
                    self._screen.tell(_told(each))
            self._due = time.monotonic() + self._still

    async def _jobs(self) -> list[str]:
        runtime, tenant = self._library.runtime, self._library.tenant
        jobs: list[str] = []
        async with self._library.transaction() as on:
            for source in self._sources:
                some = await runtime.documents.waiting(on, tenant, source, 0, SEEN - len(jobs))
                jobs += [job for job in some.values() if job]
        return jobs


def _told(stall: Stall) -> str:
    if stall.kind == "no_worker":
        return (
            f"No living worker serves the queue {stall.queue}: `penstock up` is one, and so is "
            "the same command without --no-work."
        )
    return stall.message
