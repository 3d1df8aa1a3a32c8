"""What others delete while a command takes documents in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from penstock.cli.errors import NotFound
from penstock_apps.knowledge import errors
from penstock_apps.knowledge.library import Library


class Needed:
    """A base and sources that have to be there for as long as a command runs."""

    def __init__(self, library: Library, base: int, name: str) -> None:
        self._library = library
        self._base = base
        self._name = name
        self._sources: dict[int, str] = {}

    def add(self, source: int, name: str) -> None:
        """From now on this source, too."""
        self._sources[source] = name

    @asynccontextmanager
    async def throughout(self) -> AsyncIterator[None]:
        """NotFound, if one of them is deleted during the block."""
        try:
            yield
        except (errors.NotFound, errors.TenantInactive):
            await self._expect()
            raise
        await self._expect()

    async def _expect(self) -> None:
        runtime, tenant = self._library.runtime, self._library.tenant
        async with self._library.transaction() as on:
            if await runtime.bases.find(on, tenant, None, self._base) is None:
                # A tenant goes with all of its bases.
                if await runtime.tenants.is_deleted(on, tenant):
                    raise _deleted("tenant", tenant)
                raise _deleted("knowledge base", self._name)
            for source, name in self._sources.items():
                try:
                    await runtime.sources.get(on, tenant, source)
                except errors.NotFound:
                    raise _deleted("source", name) from None


def _deleted(what: str, name: str) -> NotFound:
    return NotFound(f"The {what} {name} was deleted meanwhile.", what=what, name=name)
