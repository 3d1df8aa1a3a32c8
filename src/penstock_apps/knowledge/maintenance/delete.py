"""Remove what was deleted, some rows at a time. A sweep resumes an interrupted removal."""

from __future__ import annotations

from collections.abc import Sequence

from penstock import Context, Unique, task
from penstock_apps.knowledge.runtime import KnowledgeRuntime, expect_id, tenant_of_job
from penstock_apps.knowledge.store.deletion import Deleted

# The queue of maintenance jobs.
MAINTENANCE_QUEUE = "knowledge"
DOCUMENTS_PER_TRANSACTION = 200
SOURCES_PER_TRANSACTION = 500
ROWS_PER_TRANSACTION = 2000
FILES_PER_TRANSACTION = 200


@task(
    name="knowledge.remove",
    queue=MAINTENANCE_QUEUE,
    priority=50,
    max_attempts=20,
    resources=[KnowledgeRuntime],
    unique=Unique(),
)
async def remove(ctx: Context, what: Deleted, which: int | None) -> int:
    """Remove a deleted document, source, base or tenant; return how many documents were removed.

    It removes nothing that is not marked as deleted.
    """
    removing = Removal(ctx.resource(KnowledgeRuntime), tenant_of_job(ctx))
    if what == "tenant":
        return await removing.tenant()
    id = expect_id(ctx, what, which)
    if what == "base":
        return await removing.base(id)
    if what == "source":
        return await removing.source(id)
    return await removing.documents(document=id)


class Removal:
    """Removes what one tenant has deleted. Every step is one transaction, and safe to repeat.

    It looks up in the tables what is marked as deleted, so that it never removes anything else.
    """

    def __init__(self, runtime: KnowledgeRuntime, tenant: str) -> None:
        self._runtime = runtime
        self._removals = runtime.removals
        self._tenant = tenant
        self._jobs = runtime.app.for_tenant(tenant)

    async def documents(
        self, *, base: int | None = None, source: int | None = None, document: int | None = None
    ) -> int:
        """Remove deleted documents, and cancel their jobs; return how many documents.

        Their files are removed as well, unless other documents need them.
        """
        number = 0
        while True:
            async with self._runtime.tables.transaction(self._tenant) as on:
                jobs = await self._removals.list_deleted_documents(
                    on,
                    self._tenant,
                    DOCUMENTS_PER_TRANSACTION,
                    base=base,
                    source=source,
                    document=document,
                )
            if not jobs:
                return number
            await self._jobs.cancel_many([each for each in jobs.values() if each], "deleted")
            async with self._runtime.tables.transaction(self._tenant) as on:
                digests = await self._removals.remove_documents(on, self._tenant, list(jobs))
            await remove_files(self._runtime, self._tenant, digests)
            number += len(jobs)

    async def source(self, source: int) -> int:
        number = await self.documents(source=source)
        async with self._runtime.tables.transaction(self._tenant) as on:
            await self._removals.remove_sources(on, self._tenant, [source])
        return number

    async def base(self, base: int) -> int:
        """Remove a base, and return the number of its documents.

        Its sources are marked as deleted first, so that no documents are added meanwhile.
        """
        while await self._mark_sources(base):
            continue
        async with self._runtime.tables.transaction(self._tenant) as on:
            editions = await self._removals.list_deleted_editions(on, self._tenant, base)
        for edition in editions:
            await self._runtime.indexes.drop(edition)
        number = await self.documents(base=base)
        while sources := await self._list_sources(base):
            async with self._runtime.tables.transaction(self._tenant) as on:
                await self._removals.remove_sources(on, self._tenant, sources)
        for edition in editions:
            await remove_edition(self._runtime, self._tenant, edition)
        async with self._runtime.tables.transaction(self._tenant) as on:
            await self._removals.remove_base(on, self._tenant, base)
        return number

    async def tenant(self) -> int:
        number = 0
        while True:
            async with self._runtime.tables.transaction(self._tenant) as on:
                bases = await self._removals.list_deleted_bases(on, self._tenant)
            for base in bases:
                number += await self.base(base)
            if not await self._is_deleted():
                return number
            await self._remove_leftovers()
            async with self._runtime.tables.transaction(self._tenant) as on:
                await self._runtime.tenants.lock(on, self._tenant, exclusive=True)
                if not await self._runtime.tenants.is_deleted(on, self._tenant):
                    return number
                if await self._removals.remove_tenant(on, self._tenant):
                    return number

    async def _is_deleted(self) -> bool:
        async with self._runtime.tables.transaction(self._tenant) as on:
            return await self._runtime.tenants.is_deleted(on, self._tenant)

    async def _remove_leftovers(self) -> None:
        """Remove what is in no base: unpublished vectors, and files of interrupted uploads."""
        while await self._remove_vectors():
            continue
        async with self._runtime.tables.transaction(self._tenant) as on:
            digests = await self._runtime.objects.list_some(on, self._tenant, FILES_PER_TRANSACTION)
        while digests and await remove_files(self._runtime, self._tenant, digests):
            async with self._runtime.tables.transaction(self._tenant) as on:
                digests = await self._runtime.objects.list_some(
                    on, self._tenant, FILES_PER_TRANSACTION
                )

    async def _mark_sources(self, base: int) -> int:
        async with self._runtime.tables.transaction(self._tenant) as on:
            return await self._removals.mark_sources(
                on, self._tenant, base, SOURCES_PER_TRANSACTION
            )

    async def _list_sources(self, base: int) -> list[int]:
        async with self._runtime.tables.transaction(self._tenant) as on:
            return await self._removals.list_deleted_sources(
                on, self._tenant, base, SOURCES_PER_TRANSACTION
            )

    async def _remove_vectors(self) -> int:
        async with self._runtime.tables.transaction(self._tenant) as on:
            return await self._removals.remove_vectors(on, self._tenant, ROWS_PER_TRANSACTION)


async def remove_files(runtime: KnowledgeRuntime, tenant: str, digests: Sequence[bytes]) -> int:
    """Remove those of the files that nothing needs, and return how many.

    The row of a file is locked while the file is removed, and removed after it. An upload of the
    same content waits for the lock, and then stores the file again.
    """
    removed = 0
    for start in range(0, len(digests), FILES_PER_TRANSACTION):
        async with runtime.tables.transaction(tenant) as on:
            group = digests[start : start + FILES_PER_TRANSACTION]
            names = await runtime.objects.lock_unneeded(on, tenant, group)
            await runtime.storage.delete(list(names.values()))
            await runtime.objects.remove(on, tenant, list(names))
            removed += len(names)
    return removed


async def remove_edition(runtime: KnowledgeRuntime, tenant: str, edition: int) -> None:
    """Remove a retired edition with its index and its chunks, some rows at a time."""
    await runtime.indexes.drop(edition)
    removed = ROWS_PER_TRANSACTION
    while removed == ROWS_PER_TRANSACTION:
        async with runtime.tables.transaction(tenant) as on:
            removed = await runtime.removals.remove_chunks(
                on, tenant, edition, ROWS_PER_TRANSACTION
            )
    async with runtime.tables.transaction(tenant) as on:
        await runtime.removals.remove_edition(on, tenant, edition)
