"""Editions that are built while another edition of the base is searched."""

from __future__ import annotations

import msgspec

from penstock_apps.knowledge.store.bases import NewEdition
from penstock_apps.knowledge.store.documents import VersionToIngest, Work, work_from
from penstock_apps.knowledge.store.tables import Connection, TablePool
from penstock_apps.knowledge.text import Extracted, Section


class Editions:
    """Reads and writes the editions that are being built, and finds retired ones."""

    def __init__(self, tables: TablePool) -> None:
        self._sql = tables.statement

    async def lock(self, on: Connection, base: int) -> None:
        """Keep others from publishing into a base or switching its editions.

        The lock ends with the transaction.
        """
        await on.fetch(self._sql("lock_editions"), base)

    async def begin_building(self, on: Connection, tenant: str, base: int, new: NewEdition) -> int:
        """Return the id of the edition being built with these settings; make it if needed.

        Retire any other edition of the base that is being built.
        """
        settings = msgspec.json.encode(new.recipe).decode()
        building: int | None = await on.fetchval(
            self._sql("find_building_edition"), tenant, base, settings, new.embedder
        )
        await self.retire_building(on, tenant, base, building)
        if building is not None:
            return building
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

    async def retire_building(
        self, on: Connection, tenant: str, base: int, wanted: int | None = None
    ) -> None:
        """Retire the editions of a base that are being built, except `wanted`."""
        await on.execute(self._sql("retire_building_editions"), tenant, base, wanted)

    async def note_build(
        self, on: Connection, tenant: str, edition: int, batch: str | None, error: str | None
    ) -> None:
        """Record the batch that builds an edition, or why the build failed."""
        await on.execute(self._sql("note_edition"), tenant, edition, batch, error)

    async def get(self, on: Connection, tenant: str, edition: int) -> tuple[int, str] | None:
        """Return the base and the state of an edition; None if it is gone."""
        row = await on.fetchrow(self._sql("get_edition"), tenant, edition)
        return None if row is None else (row["base"], row["state"])

    async def list_unbuilt(
        self, on: Connection, tenant: str, base: int, edition: int, after: int, limit: int
    ) -> list[VersionToIngest]:
        """List some published documents that an edition lacks.

        Documents that have a newer version under way are left out.
        """
        rows = await on.fetch(
            self._sql("list_unbuilt_documents"), tenant, base, edition, after, limit, False
        )
        return [VersionToIngest(*row) for row in rows]

    async def has_unfinished_documents(
        self, on: Connection, tenant: str, base: int, edition: int
    ) -> bool:
        """Return whether an edition lacks published documents that have a newer version under way.

        The job that ingests the newer version adds the document to the edition.
        """
        rows = await on.fetch(
            self._sql("list_unbuilt_documents"), tenant, base, edition, 0, 1, True
        )
        return bool(rows)

    async def find_work(
        self, on: Connection, tenant: str, document: int, version: int, edition: int
    ) -> Work | None:
        """Return the work to add a document to a building edition, or None if it is not needed."""
        row = await on.fetchrow(self._sql("peek_document"), tenant, document, version, edition)
        return None if row is None else work_from(row)

    async def read_text(self, on: Connection, tenant: str, document: int, kind: str) -> Extracted:
        """Rebuild the text of a document from its published chunks, without reading its file."""
        rows = await on.fetch(self._sql("read_passages"), tenant, document)
        sections = [
            Section(f"# {heading}\n\n{text}" if heading else text, page)
            for heading, text, page in rows
        ]
        return Extracted(tuple(sections), kind)

    async def list_retired(self, on: Connection, limit: int) -> list[tuple[str, int]]:
        """List some retired editions of all tenants."""
        rows = await on.fetch(self._sql("list_retired_editions"), limit)
        return [(row["tenant"], row["id"]) for row in rows]
