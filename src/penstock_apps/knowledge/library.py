"""The knowledge of one tenant: bases, sources, documents, and how far they are."""

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

ENGLISH = "english"
# Documents of one transaction.
AT_ONCE = 500


class Library:
    """One tenant's knowledge. `confined`: with the rights of the role of apps alone.

    `requested_by` is the person for whom it is used: the jobs that it enqueues say so.
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
        """A transaction as this tenant."""
        async with self.runtime.tables.transaction(
            self.tenant, confined=self.confined
        ) as connection:
            yield connection

    # Bases

    async def base(self, name: str) -> Base:
        """A base by its name or id; NotFound."""
        async with self.transaction() as on:
            return await self.runtime.bases.get(on, self.tenant, name)

    async def bases(self, *, after: str | None = None, limit: int | None = None) -> list[Base]:
        """The bases by name; with `after`, those that follow that name."""
        async with self.transaction() as on:
            return await self.runtime.bases.list(on, self.tenant, after=after, limit=limit)

    async def make_base(
        self, name: str, recipe: Recipe | None = None, language: str = ENGLISH
    ) -> Base:
        """A base with a name, made if it is not there."""
        base, _ = await self.find_or_make_base(name, recipe, language)
        return base

    async def find_or_make_base(
        self, name: str, recipe: Recipe | None = None, language: str = ENGLISH
    ) -> tuple[Base, bool]:
        """A base with a name, and whether it was made: one that is there stays as it is."""
        async with self.transaction() as on:
            found = await self.runtime.bases.find(on, self.tenant, name)
            languages = await self.runtime.bases.languages(on)
        if found is not None:
            return found, False
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
        """Take documents into a source; at the end of the block no more are added to its batch.

            async with library.intake(base, NewSource("files", "handbook")) as intake:
                await intake.add(files)

        What was added stays, whatever happens after it. Documents that are added get the labels in
        place of those that they had; without any, they keep theirs. Those of a higher `priority`
        come before others of the tenant.
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
        """Take documents into several sources, as one batch."""
        found = [await self._source_for(base, each) for each in sources]
        ended = tasks.ended.options(tenant=self.tenant, requested_by=self.requested_by)
        callback = ended.prepare([each.id for each in found])
        batch = await self.client.open_batch("knowledge", tenant=self.tenant, on_end=callback)
        async with self.transaction() as on:
            for each in found:
                begin = self.runtime.sources.begin_batch
                await begin(on, self.tenant, each.id, batch.id, self.requested_by)
        try:
            yield [Intake(self, each, batch, labels, priority) for each in found]
        finally:
            await batch.close()

    async def _source_for(self, base: Base, source: NewSource | int) -> Source:
        async with self.transaction() as on:
            if isinstance(source, NewSource):
                source = await self.runtime.sources.make(on, self.tenant, base.id, source)
            found = await self.runtime.sources.get(on, self.tenant, source)
        if found.base != base.id:
            raise NotFound(f"source of the knowledge base {base.name}", str(source))
        return found

    async def source(self, source: int) -> Source:
        async with self.transaction() as on:
            return await self.runtime.sources.get(on, self.tenant, source)

    async def document(self, document: int) -> Document:
        async with self.transaction() as on:
            return await self.runtime.documents.get(on, self.tenant, document)

    async def find_source(self, base: Base, kind: Kind, key: str) -> int | None:
        """The source with a key."""
        async with self.transaction() as on:
            return await self.runtime.sources.find(on, self.tenant, base.id, kind, key)

    async def held(self, base: Base, kind: Kind, key: str) -> dict[str, HeldDocument]:
        """What the source with a key holds, by path; nothing if there is no such source yet."""
        async with self.transaction() as on:
            source = await self.runtime.sources.find(on, self.tenant, base.id, kind, key)
            if source is None:
                return {}
            return await self.runtime.documents.list_held(on, self.tenant, source)

    async def index(self, base: Base) -> str | None:
        """Have an index made if a base has grown large and has none; the job that makes it."""
        job = await ask_for_index(self.runtime, self.tenant, base.edition.id)
        return None if job is None else job.id

    # Questions

    async def search(self, query: Query, bases: Sequence[str] = ()) -> list[Hit]:
        """What the documents of some bases, or of all, say about something.

            hits = await library.search(Query("how do I rotate the keys?", k=5), ["handbook"])

        A base or a source that is not there is NotFound. A model that cannot be asked is an error
        for who names its base; among all bases, its own are searched by words.
        """
        async with self.transaction() as on:
            for source in query.filters.sources:
                await self.runtime.sources.get(on, self.tenant, source)
            if bases:
                asked = [await self.runtime.bases.get(on, self.tenant, name) for name in bases]
            else:
                asked = await self.runtime.bases.list(on, self.tenant)
        groups = [
            EditionGroup(
                tuple(each.edition.id for each in some),
                await self._vector(some, query, is_named=bool(bases)),
            )
            for some in _grouped(asked)
        ]
        async with self.transaction() as on:
            return await self.runtime.searching.search(on, self.tenant, groups, query)

    async def _vector(self, bases: Sequence[Base], query: Query, *, is_named: bool) -> Any:
        """What the model of some bases makes of a question; None: they are searched by words."""
        if query.mode == "words" or not query.text.strip():
            return None
        try:
            embedder = self.runtime.embedder(bases[0].edition.recipe.embedding)
            return await embedder.embed_query(query.text)
        except (Retryable, NotRetryable) as error:
            if is_named:
                raise
            names = ", ".join(each.name for each in bases)
            logger.warning("Only words are searched for in %s of %s: %s", names, self.tenant, error)
            return None

    # How far it is

    async def progress(
        self,
        *,
        source: int | None = None,
        base: int | None = None,
        since: timedelta | None = None,
    ) -> Counts:
        """Documents by state: of a source, of a base, of all; or of those that came `since`."""
        async with self.transaction() as on:
            if since is not None:
                recent = self.runtime.counters.count_recent
                return await recent(on, self.tenant, since, source=source, base=base)
            return await self.runtime.counters.count(on, self.tenant, source=source, base=base)

    # Deleting: nobody sees it from here on, and a job removes all of it

    async def delete_document(self, document: int) -> None:
        """Delete a document with its attachments; NotFound."""
        if not await self._delete([document]):
            raise NotFound("document", str(document))

    async def delete_documents(self, documents: Sequence[int]) -> int:
        """Delete those of some documents that are there; how many."""
        number = 0
        for start in range(0, len(documents), AT_ONCE):
            number += await self._delete(documents[start : start + AT_ONCE])
        return number

    async def _delete(self, documents: Sequence[int]) -> int:
        async with self.transaction() as on:
            marked = await self.runtime.removals.mark_documents(on, self.tenant, documents)
            await self._remove(on, "document", *marked)
        await self.client.cancel_many([job for job in marked.values() if job], "deleted")
        return len(marked)

    async def delete_source(self, source: int) -> None:
        """Delete a source with its documents; NotFound."""
        async with self.transaction() as on:
            await self.runtime.removals.mark_source(on, self.tenant, source)
            await self._remove(on, "source", source)

    async def delete_base(self, base: int) -> None:
        """Delete a base with its sources; NotFound."""
        async with self.transaction() as on:
            await self.runtime.removals.mark_base(on, self.tenant, base)
            await self._remove(on, "base", base)

    async def delete_tenant(self) -> None:
        """Delete all that the tenant has, and what is set for it: an administrator's call."""
        async with self.runtime.tables.transaction(self.tenant) as on:
            await self.runtime.tenants.lock(on, self.tenant, exclusive=True)
            await self.runtime.removals.mark_tenant(on, self.tenant)
            await self._remove(on, "tenant", None)

    async def _remove(self, on: Connection, what: Deleted, *which: int | None) -> None:
        task = remove.options(tenant=self.tenant, requested_by=self.requested_by)
        await self.client.inside(on).enqueue_many([task.prepare(what, each) for each in which])

    async def finish_removals(self) -> None:
        """Remove here what is deleted, if there is anything that no worker has removed yet."""
        async with self.transaction() as on:
            is_left = await self.runtime.removals.has_unfinished(on, self.tenant)
        if is_left:
            await self.runtime.app.worker({MAINTENANCE_QUEUE: 4}, tenants=self.tenant).drain()

    # Again, or no more

    async def retry(self, source: int) -> Receipt:
        """Bring in what has failed in a source or was cancelled, and nothing else."""
        found = await self.source(source)
        async with self.transaction() as on:
            base = await self.runtime.bases.find(on, self.tenant, None, found.base)
        assert base is not None
        async with self.intake(base, source) as intake:
            while await intake.retry(AT_ONCE):
                continue
        return intake.receipt

    async def cancel(self, source: int, reason: str = "requested") -> int:
        """End what is still to come into a source; how many documents."""
        await self.source(source)
        number, last = 0, 0
        while True:
            async with self.transaction() as on:
                some = await self.runtime.documents.list_unfinished(
                    on, self.tenant, source, last, AT_ONCE
                )
            if not some:
                return number
            answers = await self.client.cancel_many([job for job in some.values() if job], reason)
            jobs = [job for job, answer in answers.items() if answer == "cancelled"]
            async with self.transaction() as on:
                await self.runtime.documents.cancel(on, self.tenant, jobs)
            number, last = number + len(jobs), max(some)

    async def change_recipe(self, base: Base, recipe: Recipe) -> str | None:
        """Cut and embed a base anew, beside what is searched until that is whole; its batch.

        Asked again with the same recipe, it goes on with what is missing. With that of what is
        searched there is nothing to do, and what was being built is not any more.
        """
        if recipe == base.edition.recipe:
            await reembed.cancel_rebuild(self.runtime, base)
            return None
        embedder = self.runtime.embedder(recipe.embedding)
        new = NewEdition(recipe, embedder.fingerprint, embedder.dimensions)
        return await reembed.begin_rebuild(self.runtime, self.client, base, new, self.requested_by)

    # The tenant itself: an administrator's calls

    async def about(self) -> Tenant:
        """Whether it is active, its settings, and what it has."""
        async with self.transaction() as on:
            return await self.runtime.tenants.get(on, self.tenant)

    async def set_tenant(self, *, active: bool | None = None, **settings: Any) -> None:
        """Switch it on or off, and set quotas, raw_days, inline, background or plan.

        What is not named stays.

        await library.set_tenant(quotas={"documents": 10_000}, raw_days=30)
        """
        async with self.runtime.tables.transaction(self.tenant) as on:
            await self.runtime.tenants.set(on, self.tenant, active, settings)


def _grouped(bases: Sequence[Base]) -> list[list[Base]]:
    """Bases whose vectors, and whose words, can be compared."""
    groups: dict[tuple[str, str], list[Base]] = {}
    for each in bases:
        groups.setdefault((each.edition.embedder, each.language), []).append(each)
    return list(groups.values())
