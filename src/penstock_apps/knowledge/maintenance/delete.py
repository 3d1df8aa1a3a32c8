"""Removing what was deleted, piece by piece; killed half-way it goes on."""

from __future__ import annotations

from collections.abc import Sequence

from penstock import Context, Unique, task
from penstock_apps.knowledge.runtime import KnowledgeRuntime, expect_id, tenant_of_job
from penstock_apps.knowledge.store.deletion import Deleted

# For those that look after all.
MAINTENANCE_QUEUE = "knowledge"
# What is removed in one transaction.
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
    """Remove all of something that is deleted; how many documents. What is not deleted stays."""
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

    Statements look for the mark themselves: what does not have it stays, whoever asks.
    """

    def __init__(self, runtime: KnowledgeRuntime, tenant: str) -> None:
        self._runtime = runtime
        self._removals = runtime.removals
        self._tenant = tenant
        self._jobs = runtime.app.for_tenant(tenant)

    async def documents(
        self, *, base: int | None = None, source: int | None = None, document: int | None = None
    ) -> int:
        """Cancel their jobs, remove them, then the files that nothing else needs; how many."""
        number = 0
        while True:
            async with self._runtime.tables.transaction(self._tenant) as on:
                some = await self._removals.list_deleted_documents(
                    on,
                    self._tenant,
                    DOCUMENTS_PER_TRANSACTION,
                    base=base,
                    source=source,
                    document=document,
                )
            if not some:
                return number
            await self._jobs.cancel_many([each for each in some.values() if each], "deleted")
            async with self._runtime.tables.transaction(self._tenant) as on:
                digests = await self._removals.remove_documents(on, self._tenant, list(some))
            await remove_files(self._runtime, self._tenant, digests)
            number += len(some)

    async def source(self, source: int) -> int:
        number = await self.documents(source=source)
        async with self._runtime.tables.transaction(self._tenant) as on:
            await self._removals.remove_sources(on, self._tenant, [source])
        return number

    async def base(self, base: int) -> int:
        """Its sources take no more documents from here on, so that they end."""
        while await self._marked_sources(base):
            continue
        async with self._runtime.tables.transaction(self._tenant) as on:
            editions = await self._removals.list_deleted_editions(on, self._tenant, base)
        for edition in editions:
            await self._runtime.indexes.drop(edition)
        number = await self.documents(base=base)
        while some := await self._some_sources(base):
            async with self._runtime.tables.transaction(self._tenant) as on:
                await self._removals.remove_sources(on, self._tenant, some)
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
            await self._rest()
            async with self._runtime.tables.transaction(self._tenant) as on:
                await self._runtime.tenants.lock(on, self._tenant, exclusive=True)
                if not await self._runtime.tenants.is_deleted(on, self._tenant):
                    return number
                if await self._removals.remove_tenant(on, self._tenant):
                    return number

    async def _is_deleted(self) -> bool:
        async with self._runtime.tables.transaction(self._tenant) as on:
            return await self._runtime.tenants.is_deleted(on, self._tenant)

    async def _rest(self) -> None:
        """What is in no base: vectors that were not published, files of uploads that broke off."""
        while await self._removed_vectors():
            continue
        async with self._runtime.tables.transaction(self._tenant) as on:
            digests = await self._runtime.objects.list_some(on, self._tenant, FILES_PER_TRANSACTION)
        while digests and await remove_files(self._runtime, self._tenant, digests):
            async with self._runtime.tables.transaction(self._tenant) as on:
                digests = await self._runtime.objects.list_some(
                    on, self._tenant, FILES_PER_TRANSACTION
                )

    async def _marked_sources(self, base: int) -> int:
        async with self._runtime.tables.transaction(self._tenant) as on:
            return await self._removals.mark_sources(
                on, self._tenant, base, SOURCES_PER_TRANSACTION
            )

    async def _some_sources(self, base: int) -> list[int]:
        async with self._runtime.tables.transaction(self._tenant) as on:
            return await self._removals.list_deleted_sources(
                on, self._tenant, base, SOURCES_PER_TRANSACTION
            )

    async def _removed_vectors(self) -> int:
        async with self._runtime.tables.transaction(self._tenant) as on:
            return await self._removals.remove_vectors(on, self._tenant, ROWS_PER_TRANSACTION)


async def remove_files(runtime: KnowledgeRuntime, tenant: str, digests: Sequence[bytes]) -> int:
    """Remove stored files that nothing needs: first the file, then its row, which is locked.

    Who is about to store the same content waits for the lock, and stores it again.
    """
    removed = 0
    for start in range(0, len(digests), FILES_PER_TRANSACTION):
        async with runtime.tables.transaction(tenant) as on:
            some = digests[start : start + FILES_PER_TRANSACTION]
            names = await runtime.objects.lock_unneeded(on, tenant, some)
            await runtime.storage.delete(list(names.values()))
            await runtime.objects.remove(on, tenant, list(names))
            removed += len(names)
    return removed


async def remove_edition(runtime: KnowledgeRuntime, tenant: str, edition: int) -> None:
    """Remove an edition that nobody searches, in pieces."""
    await runtime.indexes.drop(edition)
    removed = ROWS_PER_TRANSACTION
    while removed == ROWS_PER_TRANSACTION:
        async with runtime.tables.transaction(tenant) as on:
            removed = await runtime.removals.remove_chunks(
                on, tenant, edition, ROWS_PER_TRANSACTION
            )
    async with runtime.tables.transaction(tenant) as on:
        await runtime.removals.remove_edition(on, tenant, edition)
