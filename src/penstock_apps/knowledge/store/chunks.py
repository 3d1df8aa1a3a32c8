"""Chunks of documents and their vectors: how they are published, and where they stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from penstock_apps.knowledge.store.tables import Connection, TablePool, encode_vectors
from penstock_apps.knowledge.text import Piece


class Published(Struct, frozen=True):
    """What came of publishing a document: see publish_v1.sql."""

    answer: Literal["published", "stale", "missing", "quota", "retired"]
    added: int
    missing: list[bytes] | None


class Publishing:
    """Chunks, passages and vectors."""

    def __init__(self, tables: TablePool) -> None:
        self._sql = tables.statement
        self._call = tables.call

    async def missing(
        self, on: Connection, tenant: str, edition: int, hashes: Sequence[bytes]
    ) -> set[bytes]:
        """The texts that the model has not seen yet."""
        rows = await on.fetch(self._sql("find_missing_texts"), tenant, edition, list(hashes))
        return {row["hash"] for row in rows}

    async def ask(
        self, on: Connection, tenant: str, edition: int, hashes: Sequence[bytes]
    ) -> tuple[set[bytes], bool]:
        """The same in a transaction of its own, and whether the tenant is active."""
        row = await on.fetchrow(self._call("ask_missing"), tenant, edition, list(hashes))
        assert row is not None
        return set(row["missing"]), row["active"]

    async def keep(
        self, on: Connection, tenant: str, embedder: str, vectors: Mapping[bytes, Any]
    ) -> None:
        """Keep vectors until they are published."""
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
        """Let a version of a document be found, in this transaction."""
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
    """A piece of a document, at its place."""

    position: int
    page: int | None
    id: int
    heading: str
    text: str
    tokens: int


class Passages:
    """The pieces of documents that are searched."""

    def __init__(self, tables: TablePool) -> None:
        self._sql = tables.statement

    async def list(
        self, on: Connection, tenant: str, document: int, after: int, limit: int
    ) -> list[Passage]:
        """Those of a document, in order, after a position."""
        rows = await on.fetch(self._sql("list_chunks"), tenant, document, after, limit)
        return [Passage(**row) for row in rows]
