"""Publish the chunks of documents with their vectors, and list them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from penstock_apps.knowledge.store.tables import Connection, TablePool, encode_vectors
from penstock_apps.knowledge.text import Piece


class Published(Struct, frozen=True):
    """The result of publishing a document: see publish_v1.sql."""

    answer: Literal["published", "stale", "missing", "quota", "retired"]
    added: int
    missing: list[bytes] | None


class Publishing:
    """Publishes chunks, and stores vectors until their chunks are published."""

    def __init__(self, tables: TablePool) -> None:
        self._sql = tables.statement
        self._call = tables.call

    async def find_missing(
        self, on: Connection, tenant: str, edition: int, hashes: Sequence[bytes]
    ) -> set[bytes]:
        """Return the hashes of the texts that have no vectors yet."""
        rows = await on.fetch(self._sql("find_missing_texts"), tenant, edition, list(hashes))
        return {row["hash"] for row in rows}

    async def check_missing(
        self, on: Connection, tenant: str, edition: int, hashes: Sequence[bytes]
    ) -> tuple[set[bytes], bool]:
        """Return the hashes of texts without vectors, and whether the tenant is active.

        One statement reads both.
        """
        row = await on.fetchrow(self._call("ask_missing"), tenant, edition, list(hashes))
        assert row is not None
        return set(row["missing"]), row["active"]

    async def keep_vectors(
        self, on: Connection, tenant: str, embedder: str, vectors: Mapping[bytes, Any]
    ) -> None:
        """Store vectors until their chunks are published."""
        sql = self._call("keep_vectors")
        await on.execute(sql, tenant, embedder, list(vectors), encode_vectors(vectors.values()))

    async def publish(
        self,
        on: Connection,
        tenant: str,
        document: int,
        version: int,
        edition: int,
        pieces: Sequence[Piece],
        hashes: Sequence[bytes],
        fresh: Mapping[bytes, Any],
        facts: Mapping[str, Any],
    ) -> Published:
        """Publish a version of a document in this transaction, so that searches find it."""
        vectors = dict(zip(fresh, encode_vectors(fresh.values()), strict=True))
        row = await on.fetchrow(
            self._call("publish"),
            tenant,
            document,
            version,
            edition,
            list(hashes),
            [each.text for each in pieces],
            [each.heading for each in pieces],
            [each.tokens for each in pieces],
            [each.page for each in pieces],
            [vectors.pop(each, None) for each in hashes],
            msgspec.json.encode(facts).decode(),
        )
        assert row is not None
        return Published(*row)


class Passage(Struct, frozen=True):
    """A chunk at its position in a document."""

    position: int
    page: int | None
    id: int
    heading: str
    text: str
    tokens: int


class Passages:
    """Lists the published chunks of documents."""

    def __init__(self, tables: TablePool) -> None:
        self._sql = tables.statement

    async def list(
        self, on: Connection, tenant: str, document: int, after: int, limit: int
    ) -> list[Passage]:
        """List the chunks of a document in order, after a position."""
        rows = await on.fetch(self._sql("list_chunks"), tenant, document, after, limit)
        return [Passage(**row) for row in rows]
