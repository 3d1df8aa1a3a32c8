"""A knowledge base that is filled once and asked often."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import asyncpg

from penstock.config import Database
from penstock.embedded import Server
from penstock.migrate import migrate as migrate_engine
from penstock.sql import quote
from penstock_apps.knowledge.embed import Embedding
from penstock_apps.knowledge.embed.wordllama import WordLlama
from penstock_apps.knowledge.search import EditionGroup, Hit, Mode, Query, Searcher
from penstock_apps.knowledge.store.chunks import Publishing
from penstock_apps.knowledge.store.schema import migrate, schema_of
from penstock_apps.knowledge.store.tables import Connection, TablePool
from penstock_apps.knowledge.text import Piece

TENANT = "bench"
# Editions with so many chunks have an index.
LARGE: Final = 10_001
ENGINE = "bench_search"


@dataclass(frozen=True)
class Stock:
    """One base with several editions; how they share the documents is the caller's."""

    tables: TablePool
    model: WordLlama
    schema: str

    async def fill(self, editions: int, documents: Iterable[tuple[int, str, list[Piece]]]) -> int:
        """Publish documents, each in the edition of its number, and index them; how many chunks."""
        async with self.tables.transaction(TENANT) as on:
            # Each edition has a base and a source of its own, of the same id.
            for _ in range(editions):
                await on.execute(
                    f"WITH base AS (INSERT INTO {self.schema}.base (tenant, name)"
                    "  VALUES ($1, gen_random_uuid()) RETURNING id),"
                    f" edition AS (INSERT INTO {self.schema}.edition"
                    "  (tenant, base, settings, embedder, dimensions)"
                    "  SELECT $1, id, '{}', $2, $3 FROM base)"
                    f"INSERT INTO {self.schema}.source (tenant, base, kind, name)"
                    " SELECT $1, id, 'files', 'files' FROM base",
                    TENANT,
                    self.model.fingerprint,
                    self.model.dimensions,
                )
        for edition, path, pieces in documents:
            async with self.tables.transaction(TENANT) as on:
                await self._publish(on, edition, path, pieces)
        async with self.tables.transaction(TENANT) as on:
            count, make = self.tables.statement("count_chunks"), self.tables.call("make_index")
            for edition in range(1, editions + 1):
                if await on.fetchval(count, edition, LARGE) == LARGE:
                    await on.fetch(make, edition, "1GB")
            await on.execute(f"ANALYZE {self.schema}.chunk, {self.schema}.passage")
            chunks: int = await on.fetchval(f"SELECT count(*) FROM {self.schema}.chunk")
        return chunks

    async def index_all(self) -> None:
        """Make an index of all vectors, for the bare scan; no search uses it, for its condition."""
        dimensions = self.model.dimensions
        async with self.tables.transaction(TENANT) as on:
            await on.execute("SET LOCAL maintenance_work_mem = '1GB'")
            await on.execute(
                f"CREATE INDEX ON {self.schema}.chunk"
                f" USING hnsw ((embedding::halfvec({dimensions})) halfvec_cosine_ops)"
                " WITH (m = 12, ef_construction = 64)"
                f" WHERE vector_dims(embedding) = {dimensions}"
            )

    async def _publish(self, on: Connection, edition: int, path: str, pieces: list[Piece]) -> None:
        document: int = await on.fetchval(
            f"INSERT INTO {self.schema}.document (tenant, base, source, path)"
            " VALUES ($1, $2, $2, $3) RETURNING id",
            TENANT,
            edition,
            path,
        )
        hashes = [piece.hash for piece in pieces]
        vectors = self.model.vectors([piece.embedded for piece in pieces])
        fresh = dict(zip(hashes, vectors, strict=True))
        published = await Publishing(self.tables).publish(
            on, TENANT, document, 1, edition, pieces, hashes, fresh, {}
        )
        assert published.answer == "published", published

    async def ask(
        self, on: Connection, editions: Iterable[int], text: str, k: int, mode: Mode = "hybrid"
    ) -> list[Hit]:
        group = EditionGroup(tuple(editions), self.model.vectors([text])[0])
        return await Searcher(self.tables).search(on, TENANT, [group], Query(text, k, mode=mode))


@asynccontextmanager
async def opened(folder: str) -> AsyncIterator[Stock]:
    """An empty one, on a server in a folder."""
    server = Server(folder)
    with server.hold():
        await _give_memory(server.admin_url())
    with server.hold() as url:
        database = Database(url=url, schema=ENGINE)
        schema = schema_of(ENGINE)
        await _forget(url, schema, ENGINE)
        await migrate_engine(url, schema=ENGINE)
        await migrate(database)
        async with TablePool.opened(database, 2) as tables:
            yield Stock(tables, WordLlama(Embedding()), schema)
        await _forget(url, schema, ENGINE)


async def _give_memory(url: str) -> None:
    """As much as holds all chunks, from the next start on."""
    connection = await asyncpg.connect(url)
    await connection.execute("ALTER SYSTEM SET shared_buffers = '1GB'")
    await connection.close()


async def _forget(url: str, *schemas: Any) -> None:
    connection = await asyncpg.connect(url)
    for schema in schemas:
        await connection.execute(f"DROP SCHEMA IF EXISTS {quote(schema)} CASCADE")
    await connection.close()
