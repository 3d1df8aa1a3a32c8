"""The knowledge of one tenant: its bases, sources and documents, their search and progress."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from penstock import Client, ConfigError, NotRetryable, Retryable
from penstock_apps.knowledge import tasks
from penstock_apps.knowledge.errors import NotFound, TenantInactive
from penstock_apps.knowledge.ingest.intake import Intake, Receipt
from penstock_apps.knowledge.maintenance import reembed
from penstock_apps.knowledge.maintenance.delete import MAINTENANCE_QUEUE, remove
from penstock_apps.knowledge.maintenance.vector_index import ask_for_index
from penstock_apps.knowledge.runtime import KnowledgeRuntime
from penstock_apps.knowledge.search import EditionGroup, Hit, Query
from penstock_apps.knowledge.store.bases import Base, NewEdition, Recipe
from penstock_apps.knowledge.store.counts import Counts
from penstock_apps.knowledge.store.deletion import Deleted
from penstock_apps.knowledge.store.documents import UNLABELLED, Document, HeldDocument, Labels
from penstock_apps.knowledge.store.sources import Kind, NewSource, Source
from penstock_apps.knowledge.store.tables import Connection
from penstock_apps.knowledge.store.tenants import Tenant

logger = logging.getLogger("penstock.knowledge")

DEFAULT_LANGUAGE = "english"
DOCUMENTS_PER_TRANSACTION = 500


class Library:
    """The knowledge of one tenant. If `confined`, it has the rights of the app role only.

    `requested_by` is the person for whom it is used, and is recorded with the jobs it enqueues.
    """

    def __init__(
        self,
        runtime: KnowledgeRuntime,
        tenant: str,
        *,
        confined: bool = False,
        requested_by: str | None = None,
    ) -> None:
        self.runtime = runtime
        self.requested_by = requested_by
        self.tenant = tenant
        self.confined = confined
        self.client: Client = runtime.app.for_tenant(tenant, confined=confined)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """Open a transaction for this tenant."""
        async with self.runtime.tables.transaction(
            self.tenant, confined=self.confined
        ) as connection:
            yield connection

    # Bases

    async def base(self, name: str) -> Base:
        """Return a base by its name or id; raise NotFound or BaseBroken."""
        async with self.transaction() as on:
            return await self.runtime.bases.get(on, self.tenant, name)

    async def bases(self, *, after: str | None = None, limit: int | None = None) -> list[Base]:
        """List the bases by name. If `after` is given, start after that name."""
        async with self.transaction() as on:
            return await self.runtime.bases.list(on, self.tenant, after=after, limit=limit)

    async def make_base(
        self, name: str, recipe: Recipe | None = None, language: str = DEFAULT_LANGUAGE
    ) -> Base:
        """Return the base of a name, and make it if it does not exist."""
        base, _ = await self.find_or_make_base(name, recipe, language)
        return base

    async def find_or_make_base(
        self, name: str, recipe: Recipe | None = None, language: str = DEFAULT_LANGUAGE
    ) -> tuple[Base, bool]:
        """Return the base of a name, which is made if it does not exist, and whether it is new.

        An existing base keeps its recipe and its language.
        """
        async with self.transaction() as on:
            base = await self.runtime.bases.find(on, self.tenant, name)
            languages = await self.runtime.bases.languages(on)
        if base is not None:
            return base, False
        if language not in languages:
            raise ConfigError("language", language, ", ".join(languages))
        recipe = recipe or Recipe()
        embedder = self.runtime.embedder(recipe.embedding)
        edition = NewEdition(recipe, embedder.fingerprint, embedder.dimensions)
        async with self.transaction() as on:
            await self.runtime.tenants.lock(on, self.tenant)
            if await self.runtime.tenants.is_deleted(on, self.tenant):
                raise TenantInactive(self.tenant)
            return await self.runtime.bases.make(on, self.tenant, name, language, edition)

    # Sources and documents

    @asynccontextmanager
    async def intake(
        self,
        base: Base,
        source: NewSource | int,
        labels: Labels = UNLABELLED,
        *,
        priority: int = 0,
    ) -> AsyncIterator[Intake]:
        """Add documents to a source, as one batch, which the end of the block closes.

            async with library.intake(base, NewSource("files", "handbook")) as intake:
                await intake.add(files)

        What was added stays, even if the block fails later. Added documents get these labels in
        place of those they had; without labels, they keep theirs. Documents of a higher `priority`
        are ingested before others of the tenant.
        """
        async with self.intakes(base, [source], labels, priority=priority) as [intake]:
            yield intake

    @asynccontextmanager
    async def intakes(
        self,
        base: Base,
        sources: Sequence[NewSource | int],
        labels: Labels = UNLABELLED,
        *,
        priority: int = 0,
    ) -> AsyncIterator[list[Intake]]:
        """Add documents to several sources, as one batch."""
        opened = [await self._source_for(base, each) for each in sources]
        ended = tasks.ended.options(tenant=self.tenant, requested_by=self.requested_by)
        callback = ended.prepare([each.id for each in opened])
        batch = await self.client.open_batch("knowledge", tenant=self.tenant, on_end=callback)
        async with self.transaction() as on:
            for each in opened:
                begin = self.runtime.sources.begin_batch
                await begin(on, self.tenant, each.id, batch.id, self.requested_by)
        try:
            yield [Intake(self, each, batch, labels, priority) for each in opened]
        finally:
            await batch.close()

    async def _source_for(self, base: Base, source: NewSource | int) -> Source:
        async with self.transaction() as on:
            if isinstance(source, NewSource):
                source = await self.runtime.sources.make(on, self.tenant, base.id, source)
            row = await self.runtime.sources.get(on, self.tenant, source)
        if row.base != base.id:
            raise NotFound(f"source of the knowledge base {base.name}", str(source))
        return row

    async def source(self, source: int) -> Source:
        async with self.transaction() as on:
            return await self.runtime.sources.get(on, self.tenant, source)

    async def document(self, document: int) -> Document:
        async with self.transaction() as on:
            return await self.runtime.documents.get(on, self.tenant, document)

    async def find_source(self, base: Base, kind: Kind, key: str) -> int | None:
        """Return the id of the source with a key, or None."""
        async with self.transaction() as on:
            return await self.runtime.sources.find(on, self.tenant, base.id, kind, key)

    async def list_held(self, base: Base, kind: Kind, key: str) -> dict[str, HeldDocument]:
        """Return the documents of the source with a key, by path; none without such a source."""
        async with self.transaction() as on:
            source = await self.runtime.sources.find(on, self.tenant, base.id, kind, key)
            if source is None:
                return {}
            return await self.runtime.documents.list_held(on, self.tenant, source)

    async def request_index(self, base: Base) -> str | None:
        """Enqueue a job to build the index of a base if it needs one; return its id or None."""
        job = await ask_for_index(self.runtime, self.tenant, base.edition.id)
        return None if job is None else job.id

    # Search

    async def search(self, query: Query, bases: Sequence[str] = ()) -> list[Hit]:
        """Search the documents of some bases, or of all, and return the best chunks.

            hits = await library.search(Query("how do I rotate the keys?", k=5), ["handbook"])

        It raises NotFound for a base or source that does not exist. If the model of a base does not
        answer, it raises the model's error if `bases` was given; otherwise it searches that base by
        words only.
        """
        async with self.transaction() as on:
            for source in query.filters.sources:
                await self.runtime.sources.get(on, self.tenant, source)
            if bases:
                searched = [await self.runtime.bases.get(on, self.tenant, name) for name in bases]
            else:
                searched = await self.runtime.bases.list(on, self.tenant)
        groups = [
            EditionGroup(
                tuple(each.edition.id for each in group),
                await self._embed_question(group, query, is_named=bool(bases)),
            )
            for group in _group_bases(searched)
        ]
        async with self.transaction() as on:
            return await self.runtime.searching.search(on, self.tenant, groups, query)

    async def _embed_question(self, bases: Sequence[Base], query: Query, *, is_named: bool) -> Any:
        """Embed the question for some bases; return None to search them by words only."""
        if query.mode == "words" or not query.text.strip():
            return None
        try:
            embedder = self.runtime.embedder(bases[0].edition.recipe.embedding)
            return await embedder.embed_query(query.text)
        except (Retryable, NotRetryable) as error:
            if is_named:
                raise
            names = ", ".join(each.name for each in bases)
            logger.warning(
                "A search in %s of the tenant %s uses only words, because its query could not be "
                "embedded: %s",
                names,
                self.tenant,
                error,
            )
            return None

    # Progress

    async def progress(
        self,
        *,
        source: int | None = None,
        base: int | None = None,
        since: timedelta | None = None,
    ) -> Counts:
        """Count documents by state: those of a source, of a base, or of the tenant.

        If `since` is given, count only documents that were added within that time before now.
        """
        async with self.transaction() as on:
            if since is not None:
                recent = self.runtime.counters.count_recent
                return await recent(on, self.tenant, since, source=source, base=base)
            return await self.runtime.counters.count(on, self.tenant, source=source, base=base)

    # Deletion: searches and lists leave it out at once, and a job removes the rows and files

    async def delete_document(self, document: int) -> None:
        """Delete a document with its attachments; raise NotFound if it does not exist."""
        if not await self._delete([document]):
            raise NotFound("document", str(document))

    async def delete_documents(self, documents: Sequence[int]) -> int:
        """Delete documents with their attachments, and return how many existed."""
        number = 0
        for start in range(0, len(documents), DOCUMENTS_PER_TRANSACTION):
            number += await self._delete(documents[start : start + DOCUMENTS_PER_TRANSACTION])
        return number

    async def _delete(self, documents: Sequence[int]) -> int:
        async with self.transaction() as on:
            marked = await self.runtime.removals.mark_documents(on, self.tenant, documents)
            await self._enqueue_removal(on, "document", *marked)
        await self.client.cancel_many([job for job in marked.values() if job], "deleted")
        return len(marked)

    async def delete_source(self, source: int) -> None:
        """Delete a source with its documents; raise NotFound if it does not exist."""
        async with self.transaction() as on:
            await self.runtime.removals.mark_source(on, self.tenant, source)
            await self._enqueue_removal(on, "source", source)

    async def delete_base(self, base: int) -> None:
        """Delete a base with its sources; raise NotFound if it does not exist."""
        async with self.transaction() as on:
            await self.runtime.removals.mark_base(on, self.tenant, base)
            await self._enqueue_removal(on, "base", base)

    async def delete_tenant(self) -> None:
        """Delete everything that the tenant has, and its settings. This is for administrators."""
        async with self.runtime.tables.transaction(self.tenant) as on:
            await self.runtime.tenants.lock(on, self.tenant, exclusive=True)
            await self.runtime.removals.mark_tenant(on, self.tenant)
            await self._enqueue_removal(on, "tenant", None)

    async def _enqueue_removal(self, on: Connection, kind: Deleted, *ids: int | None) -> None:
        task = remove.options(tenant=self.tenant, requested_by=self.requested_by)
        await self.client.inside(on).enqueue_many([task.prepare(kind, each) for each in ids])

    async def finish_removals(self) -> None:
        """Run the removal jobs in this process, if anything that was deleted is not removed yet."""
        async with self.transaction() as on:
            is_unfinished = await self.runtime.removals.has_unfinished(on, self.tenant)
        if is_unfinished:
            await self.runtime.app.worker({MAINTENANCE_QUEUE: 4}, tenants=self.tenant).drain()

    # Retry, cancel, change

    async def retry(self, source: int) -> Receipt:
        """Ingest the failed and cancelled documents of a source again, and no others."""
        row = await self.source(source)
        async with self.transaction() as on:
            base = await self.runtime.bases.find(on, self.tenant, None, row.base)
        assert base is not None
        async with self.intake(base, source) as intake:
            while await intake.retry(DOCUMENTS_PER_TRANSACTION):
                continue
        return intake.receipt

    async def cancel(self, source: int, reason: str = "requested") -> int:
        """Cancel the unfinished documents of a source, and return how many."""
        await self.source(source)
        number, last = 0, 0
        while True:
            async with self.transaction() as on:
                unfinished = await self.runtime.documents.list_unfinished(
                    on, self.tenant, source, last, DOCUMENTS_PER_TRANSACTION
                )
            if not unfinished:
                return number
            answers = await self.client.cancel_many(
                [job for job in unfinished.values() if job], reason
            )
            jobs = [job for job, answer in answers.items() if answer == "cancelled"]
            async with self.transaction() as on:
                await self.runtime.documents.cancel(on, self.tenant, jobs)
            number, last = number + len(jobs), max(unfinished)

    async def change_recipe(self, base: Base, recipe: Recipe) -> str | None:
        """Build a new edition of a base with another recipe, and return the batch that does it.

        Searches use the live edition until the new one is complete. Called again with the same
        recipe, it builds what is missing. With the recipe of the live edition, it only stops what
        was being built, and returns None.
        """
        if recipe == base.edition.recipe:
            await reembed.cancel_rebuild(self.runtime, base)
            return None
        embedder = self.runtime.embedder(recipe.embedding)
        new = NewEdition(recipe, embedder.fingerprint, embedder.dimensions)
        return await reembed.begin_rebuild(self.runtime, self.client, base, new, self.requested_by)

    # The tenant itself, for administrators

    async def get_tenant(self) -> Tenant:
        """Return whether the tenant is active, its settings and its usage."""
        async with self.transaction() as on:
            return await self.runtime.tenants.get(on, self.tenant)

    async def set_tenant(self, *, active: bool | None = None, **settings: Any) -> None:
        """Switch the tenant on or off, and set quotas, raw_days, inline, background or plan.

        Settings that are not passed stay as they are.

        await library.set_tenant(quotas={"documents": 10_000}, raw_days=30)
        """
        async with self.runtime.tables.transaction(self.tenant) as on:
            await self.runtime.tenants.set(on, self.tenant, active, settings)


def _group_bases(bases: Sequence[Base]) -> list[list[Base]]:
    """Group bases of the same embedder and language, whose results can be compared."""
    groups: dict[tuple[str, str], list[Base]] = {}
    for each in bases:
        groups.setdefault((each.edition.embedder, each.language), []).append(each)
    return list(groups.values())
