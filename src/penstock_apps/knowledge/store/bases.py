"""Knowledge bases, and their editions: the settings that their documents are embedded with."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from penstock_apps.knowledge.chunk import Chunking
from penstock_apps.knowledge.embed import Embedding
from penstock_apps.knowledge.errors import BaseBroken, NotFound
from penstock_apps.knowledge.store.tables import Connection, TablePool


class Recipe(Struct, frozen=True):
    """How documents are split and embedded. Each edition stores its own, so that retries agree."""

    embedding: Embedding = Embedding()
    chunking: Chunking = Chunking()


class Edition(Struct, frozen=True):
    """The chunks of a base that were made with one recipe. A new recipe builds a new edition."""

    id: int
    recipe: Recipe
    embedder: str
    dimensions: int
    live: bool = True


class Base(Struct, frozen=True):
    """A knowledge base, with the edition that is searched and the one that is being built."""

    id: int
    tenant: str
    name: str
    language: str
    created_at: datetime
    edition: Edition
    next_edition: int | None = None
    next_recipe: Recipe | None = None
    next_batch: str | None = None
    next_error: str | None = None

    @property
    def target_recipe(self) -> Recipe:
        """The recipe that was set last: of the edition being built, else of the live one."""
        return self.next_recipe or self.edition.recipe


class Bases:
    """Reads and writes the bases of tenants."""

    def __init__(self, tables: TablePool) -> None:
        self._sql = tables.statement

    async def find(
        self, on: Connection, tenant: str, name: str | None = None, base: int | None = None
    ) -> Base | None:
        """Return a base by its name or id, or None. Raise BaseBroken if it has no live edition."""
        row = await on.fetchrow(self._sql("get_base"), tenant, name, base)
        return None if row is None else _base(row)

    async def get(self, on: Connection, tenant: str, name: str) -> Base:
        """Return a base by its name or its id; raise NotFound or BaseBroken."""
        base = await self.find(on, tenant, name)
        if base is None and name.isdecimal():
            base = await self.find(on, tenant, None, int(name))
        if base is None:
            raise NotFound("knowledge base", name)
        return base

    async def list(
        self, on: Connection, tenant: str, *, after: str | None = None, limit: int | None = None
    ) -> list[Base]:
        """List the bases of a tenant by name, without those that have lost their editions."""
        rows = await on.fetch(self._sql("list_bases"), tenant, after, limit)
        return [_base(row) for row in rows]

    async def make(
        self, on: Connection, tenant: str, name: str, language: str, edition: NewEdition
    ) -> tuple[Base, bool]:
        """Make a base unless one of this name exists. Return the base, and whether it is new."""
        made: int | None = await on.fetchval(self._sql("make_base"), tenant, name, language)
        if made is not None:
            live = await self.add_edition(on, tenant, made, edition, "live")
            await on.execute(self._sql("make_edition_live"), made, live)
        return await self.get(on, tenant, name), made is not None

    async def languages(self, on: Connection) -> Sequence[str]:
        """List the languages that Postgres has a text search configuration for."""
        return [row["name"] for row in await on.fetch(self._sql("list_languages"))]

    async def add_edition(
        self, on: Connection, tenant: str, base: int, edition: NewEdition, state: str
    ) -> int:
        made: int = await on.fetchval(
            self._sql("make_edition"),
            tenant,
            base,
            msgspec.json.encode(edition.recipe).decode(),
            edition.embedder,
            edition.dimensions,
            state,
        )
        return made

    async def make_live(self, on: Connection, base: int, edition: int) -> None:
        """Make an edition live, so that searches use it, and retire all others of the base."""
        await on.execute(self._sql("make_edition_live"), base, edition)


class NewEdition(Struct, frozen=True):
    """An edition to make."""

    recipe: Recipe
    embedder: str
    dimensions: int


@lru_cache(maxsize=64)
def edition_from(text: str) -> Edition:
    """Decode an edition of `begin_document_v1`. It is cached, since many documents share it."""
    values = msgspec.json.decode(text)
    recipe = msgspec.convert(values["settings"], Recipe)
    return Edition(values["id"], recipe, values["embedder"], values["dimensions"], values["live"])


def _base(row: Any) -> Base:
    recipe, next_recipe = [
        None if row[name] is None else msgspec.json.decode(row[name], type=Recipe)
        for name in ("settings", "next_settings")
    ]
    if recipe is None:
        raise BaseBroken(row["id"], row["name"])
    return Base(
        row["id"],
        row["tenant"],
        row["name"],
        row["language"],
        row["created_at"],
        Edition(row["edition"], recipe, row["embedder"], row["dimensions"]),
        row["next_edition"],
        next_recipe,
        row["next_batch"],
        row["next_error"],
    )
