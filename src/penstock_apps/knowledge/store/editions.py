"""Editions that are built beside the one that is searched."""

from __future__ import annotations

import msgspec

from penstock_apps.knowledge.store.bases import NewEdition
from penstock_apps.knowledge.store.documents import Wanted, Work, work_from
from penstock_apps.knowledge.store.tables import Connection, TablePool
from penstock_apps.knowledge.text import Extracted, Section


class Editions:
    """The editions of tenants' bases."""

    def __init__(self, tables: TablePool) -> None:
        self._sql = tables.statement

    async def lock(self, on: Connection, base: int) -> None:
        """Nobody publishes into a base or switches its editions until the transaction's end."""
        await on.fetch(self._sql("lock_editions"), base)

    async def begin(self, on: Connection, tenant: str, base: int, new: NewEdition) -> int:
        """Have an edition built: the one with these settings, or a new one; others are not."""
        settings = msgspec.json.encode(new.recipe).decode()
        found: int | None = await on.fetchval(
            self._sql("find_building_edition"), tenant, base, settings, new.embedder
        )
        await self.give_up(on, tenant, base, found)
        if found is not None:
            return found
        made: int = await on.fetchval(
            self._sql("make_edition"),
            tenant,
            base,
            settings,
            new.embedder,
            new.dimensions,
            "building",
        )
        return made

    async def give_up(
        self, on: Connection, tenant: str, base: int, wanted: int | None = None
    ) -> None:
        """What is being built is not wanted any more, unless it is this one."""
        await on.execute(self._sql("retire_building_editions"), tenant, base, wanted)

    async def note(
        self, on: Connection, tenant: str, edition: int, batch: str | None, error: str | None
    ) -> None:
        """The batch that builds it, or why it is not whole."""
        await on.execute(self._sql("note_edition"), tenant, edition, batch, error)

    async def get(self, on: Connection, tenant: str, edition: int) -> tuple[int, str] | None:
        """Its base and its state."""
        row = await on.fetchrow(self._sql("get_edition"), tenant, edition)
        return None if row is None else (row["base"], row["state"])

    async def unbuilt(
        self, on: Connection, tenant: str, base: int, edition: int, after: int, most: int
    ) -> list[Wanted]:
        """Some documents that can be found and are not in an edition, nor will be by themselves."""
        rows = await on.fetch(
            self._sql("list_unbuilt_documents"), tenant, base, edition, after, most, False
        )
        return [Wanted(*row) for row in rows]

    async def is_awaited(self, on: Connection, tenant: str, base: int, edition: int) -> bool:
        """Whether documents can be found that come into an edition with their next version."""
        rows = await on.fetch(
            self._sql("list_unbuilt_documents"), tenant, base, edition, 0, 1, True
        )
        return bool(rows)

    async def peek(
        self, on: Connection, tenant: str, document: int, version: int, edition: int
    ) -> Work | None:
        """All that is needed to bring a document into an edition that is being built."""
        row = await on.fetchrow(self._sql("peek_document"), tenant, document, version, edition)
        return None if row is None else work_from(row)

    async def text(self, on: Connection, tenant: str, document: int, kind: str) -> Extracted:
        """A document as it is found now: what is left of it when its file is not kept."""
        rows = await on.fetch(self._sql("read_passages"), tenant, document)
        sections = [
            Section(f"# {heading}\n\n{text}" if heading else text, page)
            for heading, text, page in rows
        ]
        return Extracted(tuple(sections), kind)

    async def retired(self, on: Connection, most: int) -> list[tuple[str, int]]:
        """Some editions, of any tenant, that nobody searches any more."""
        rows = await on.fetch(self._sql("list_retired_editions"), most)
        return [(row["tenant"], row["id"]) for row in rows]
