"""Drafts: documents that are split and wait for their vectors."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import starmap

from msgspec import Struct

from penstock_apps.knowledge.store.tables import Connection, TablePool
from penstock_apps.knowledge.text import Piece


class Draft(Struct, frozen=True):
    """The pieces of a document version, split for an edition."""

    attempt: int
    pieces: tuple[Piece, ...]
    hashes: tuple[bytes, ...]
    error: str | None
    """Why one of its texts will have no vector."""


class DraftPart(Struct, frozen=True):
    """The texts of a draft from a first to a last position."""

    document: int
    edition: int
    attempt: int
    first: int
    last: int


class DraftText(Struct, frozen=True):
    """A text of a draft. `part` is the index of its DraftPart in the argument of `list_texts`."""

    part: int
    hash: bytes
    tokens: int
    heading: str
    text: str

    @property
    def embedded(self) -> str:
        return Piece(self.text, self.tokens, self.heading).embedded


class Drafts:
    """Reads and writes the drafts of tenants."""

    def __init__(self, tables: TablePool) -> None:
        self._sql = tables.statement

    async def lock(self, on: Connection, tenant: str, documents: Collection[int]) -> dict[int, int]:
        """Lock documents until the transaction ends, and return their current versions by id."""
        rows = await on.fetch(self._sql("lock_documents"), tenant, list(documents))
        return {row["id"]: row["version"] for row in rows}

    async def write(
        self,
        on: Connection,
        tenant: str,
        document: int,
        edition: int,
        version: int,
        attempt: int,
        pieces: Sequence[Piece],
        hashes: Sequence[bytes],
    ) -> None:
        """Write a draft, which replaces the previous one."""
        await self.drop(on, tenant, document, edition)
        await on.execute(
            self._sql("write_draft"),
            tenant,
            document,
            edition,
            version,
            attempt,
            list(hashes),
            [each.tokens for each in pieces],
            [each.heading for each in pieces],
            [each.text for each in pieces],
            [each.page for each in pieces],
        )

    async def drop(self, on: Connection, tenant: str, document: int, edition: int) -> None:
        await on.execute(self._sql("drop_draft"), tenant, document, edition)

    async def read(
        self, on: Connection, tenant: str, document: int, edition: int, version: int
    ) -> Draft | None:
        """Read a draft; return None if it was published, or never written."""
        rows = await on.fetch(self._sql("read_draft"), tenant, document, edition, version)
        if not rows:
            return None
        return Draft(
            rows[0]["attempt"],
            tuple(Piece(row["text"], row["tokens"], row["heading"], row["page"]) for row in rows),
            tuple(row["hash"] for row in rows),
            next((row["error"] for row in rows if row["error"]), None),
        )

    async def list_texts(
        self, on: Connection, tenant: str, parts: Sequence[DraftPart]
    ) -> list[DraftText]:
        """Return the texts of parts. A superseded draft has none."""
        rows = await on.fetch(
            self._sql("read_draft_parts"),
            tenant,
            *_columns(parts),
            [each.first for each in parts],
            [each.last for each in parts],
        )
        return list(starmap(DraftText, rows))

    async def list_embedded(
        self, on: Connection, tenant: str, parts: Sequence[DraftPart]
    ) -> list[int]:
        """Return the indexes of those `parts` whose drafts have all of their vectors."""
        rows = await on.fetch(self._sql("list_embedded_drafts"), tenant, *_columns(parts))
        return [row["part"] for row in rows]

    async def refuse_texts(
        self,
        on: Connection,
        tenant: str,
        parts: Sequence[DraftPart],
        hashes: Collection[bytes],
        error: str,
    ) -> None:
        """Record why these texts will have no vectors."""
        sql = self._sql("refuse_draft_texts")
        await on.execute(sql, tenant, *_columns(parts), list(hashes), error)


def _columns(parts: Sequence[DraftPart]) -> tuple[list[int], list[int], list[int]]:
    return (
        [each.document for each in parts],
        [each.edition for each in parts],
        [each.attempt for each in parts],
    )
