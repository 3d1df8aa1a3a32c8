"""What a tenant has: bases, sources, documents, as people list them."""

from __future__ import annotations

from typing import NamedTuple

from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.store.bases import Base
from penstock_apps.knowledge.store.counts import Counts, Stock, Watches
from penstock_apps.knowledge.store.documents import Document
from penstock_apps.knowledge.store.sources import Source

PAGE = 1000


class BaseListed(NamedTuple):
    """A base, and what it has."""

    base: Base
    stock: Stock


class SourceListed(NamedTuple):
    """A source, and how far it is."""

    source: Source
    counts: Counts


class Catalogue:
    """Lists what a tenant has, the newest first."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._runtime = library.runtime

    async def bases(self, only: Base | None = None) -> list[BaseListed]:
        """All bases by name, or one."""
        found = await self._library.bases() if only is None else [only]
        async with self._library.transaction() as on:
            stocks = await self._runtime.tallies.stocks(on, self._library.tenant)
        return [BaseListed(each, stocks.get(each.id, Stock())) for each in found]

    async def sources(
        self, base: Base | None, state: str | None, after: int | None, limit: int
    ) -> list[SourceListed]:
        """Those of all bases or of one; in a state, which is that of all their documents."""
        found: list[SourceListed] = []
        size = PAGE if state else limit
        while len(found) < limit:
            page = await self._some_sources(base, after, size)
            found += [each for each in page if state in (None, each.counts.state)]
            if len(page) < size:
                break
            after = page[-1].source.id
        return found[:limit]

    async def _some_sources(
        self, base: Base | None, after: int | None, limit: int
    ) -> list[SourceListed]:
        tenant = self._library.tenant
        async with self._library.transaction() as on:
            within = None if base is None else base.id
            found = await self._runtime.sources.list(on, tenant, within, after, limit)
            watches = Watches(self._runtime.tables)
            now = await watches.sources(on, tenant, [each.id for each in found])
        counts = {each.id: each.counts for each in now}
        return [SourceListed(each, counts.get(each.id, Counts())) for each in found]

    async def documents(
        self,
        base: Base | None,
        source: Source | None,
        state: str | None,
        after: int | None,
        limit: int,
    ) -> list[Document]:
        async with self._library.transaction() as on:
            return await self._runtime.documents.list(
                on,
                self._library.tenant,
                base=None if base is None else base.id,
                source=None if source is None else source.id,
                state=state,
                after=after,
                limit=limit,
            )
