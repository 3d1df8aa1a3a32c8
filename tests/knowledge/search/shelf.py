"""Documents that are there to be found, published as the pipeline does it."""

from dataclasses import dataclass, field
from functools import cache
from typing import Any
from uuid import uuid4

from msgspec import json

from penstock_apps.knowledge.embed import Embedding
from penstock_apps.knowledge.embed.wordllama import WordLlama
from penstock_apps.knowledge.search import EditionGroup, Filters, Hit, Mode, Query, Searcher
from penstock_apps.knowledge.store.chunks import Publishing
from penstock_apps.knowledge.store.tables import TablePool
from penstock_apps.knowledge.text import Piece

SCHEMA = "penstock_knowledge"


@cache
def model() -> WordLlama:
    return WordLlama(Embedding())


@dataclass
class Shelf:
    """A base of one tenant, with a way to put documents on it and to ask it."""

    tables: TablePool
    tenant: str = "acme"
    language: str = "english"
    name: str = field(default_factory=lambda: uuid4().hex)
    base: int = 0
    edition: int = 0

    async def build(self) -> "Shelf":
        self.base = await self._fetchval(
            f"INSERT INTO {SCHEMA}.base (tenant, name, language) VALUES ($1, $2, $3) RETURNING id",
            self.name,
            self.language,
        )
        self.edition = await self._fetchval(
            f"INSERT INTO {SCHEMA}.edition (tenant, base, settings, embedder, dimensions) "
            "VALUES ($1, $2, '{}', $3, $4) RETURNING id",
            self.base,
            model().fingerprint,
            model().dimensions,
        )
        return self

    async def source(self) -> int:
        return await self._fetchval(
            f"INSERT INTO {SCHEMA}.source (tenant, base, kind, name) "
            "VALUES ($1, $2, 'files', 'files') RETURNING id",
            self.base,
        )

    async def add(
        self,
        source: int,
        path: str,
        *pieces: str | Piece,
        tags: list[str] | None = None,
        **metadata: Any,
    ) -> int:
        """A document of these pieces; its id."""
        document = await self._fetchval(
            f"INSERT INTO {SCHEMA}.document (tenant, base, source, path, tags, metadata) "
            "VALUES ($1, $2, $3, $4, $5, $6) RETURNING id",
            self.base,
            source,
            path,
            tags or [],
            json.encode(metadata).decode(),
        )
        cut = [p if isinstance(p, Piece) else Piece(text=p, tokens=1) for p in pieces]
        hashes = [piece.hash for piece in cut]
        vectors = model().vectors([piece.embedded for piece in cut])
        fresh = dict(zip(hashes, vectors, strict=True))
        facts = {"title": path.title()}
        async with self.tables.transaction(self.tenant) as on:
            published = await Publishing(self.tables).publish(
                on, self.tenant, document, 1, self.edition, cut, hashes, fresh, facts
            )
        assert published.answer == "published"
        return document

    def group(self, text: str) -> EditionGroup:
        return EditionGroup((self.edition,), model().vectors([text])[0])

    async def ask(
        self,
        text: str,
        k: int = 10,
        mode: Mode = "hybrid",
        *,
        beside: tuple["Shelf", ...] = (),
        confined: bool = False,
        **filters: Any,
    ) -> list[Hit]:
        """What is found here and in the shelves `beside`."""
        groups = [shelf.group(text) for shelf in (self, *beside)]
        query = Query(text, k=k, mode=mode, filters=Filters(**filters))
        async with self.tables.transaction(self.tenant, confined=confined) as on:
            return await Searcher(self.tables).search(on, self.tenant, groups, query)

    async def mark_deleted(self, table: str, which: int) -> None:
        await self._fetchval(
            f"UPDATE {SCHEMA}.{table} SET deleted_at = now() WHERE tenant = $1 AND id = $2", which
        )

    async def _fetchval(self, sql: str, *values: Any) -> int:
        async with self.tables.transaction(self.tenant) as on:
            value: int = await on.fetchval(sql, self.tenant, *values)
            return value
