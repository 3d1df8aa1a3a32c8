"""Clean up what crashes and races leave behind. Each sweep, once a minute, does a limited part."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from penstock import BatchNotFound, Context, Unique, task
from penstock.storage.names import digest_of, is_object, is_part, tenant_of
from penstock.storage.storage import StoredFile
from penstock_apps.knowledge.ingest.finish import settle
from penstock_apps.knowledge.maintenance.delete import (
    FILES_PER_TRANSACTION,
    MAINTENANCE_QUEUE,
    remove,
    remove_files,
)
from penstock_apps.knowledge.maintenance.reembed import remove_retired
from penstock_apps.knowledge.maintenance.vector_index import maintain_indexes
from penstock_apps.knowledge.runtime import KnowledgeRuntime

logger = logging.getLogger("penstock.knowledge")

# The most that one sweep looks at.
MAX_ROUNDS = 20
MAX_STRANDED_DOCUMENTS = 1000
MAX_ROWS = 2000
MAX_BATCHES = 100
MAX_EDITIONS = 10
MAX_UNFINISHED_REMOVALS = 100
# A sweep looks at so many growing editions, and indexes those with so many chunks.
MAX_GROWING_EDITIONS = 20
INDEX_GROWING_FROM_CHUNKS = 100_000
# An upload that has added nothing for so long was interrupted.
UPLOAD_ABANDONED_AFTER = timedelta(hours=1)
# A database that was restored from a backup may lack rows of files that it will get again.
STRAY_FILE_MIN_AGE = timedelta(days=30)


class Swept(Struct, frozen=True, omit_defaults=True):
    """How many rows, files or other things each step of a sweep handled."""

    folded: int = 0
    settled: int = 0
    closed: int = 0
    resumed: int = 0
    rows: int = 0
    editions: int = 0
    indexes: int = 0
    orphans: int = 0
    aged: int = 0


@task(
    name="knowledge.sweep", queue=MAINTENANCE_QUEUE, resources=[KnowledgeRuntime], unique=Unique()
)
async def sweep(ctx: Context) -> Swept:
    """Run each step of a sweep: fold counters, settle documents, and remove what nothing needs."""
    sweeper = KnowledgeSweeper(ctx.resource(KnowledgeRuntime))
    return Swept(
        folded=await sweeper.fold(),
        settled=await sweeper.settle(),
        closed=await sweeper.close_batches(),
        resumed=await sweeper.resume(),
        rows=await sweeper.rows(),
        editions=await sweeper.editions(),
        indexes=await sweeper.indexes(),
        orphans=await sweeper.orphans(),
        aged=await sweeper.expired_files(),
    )


class Walked(Struct, frozen=True):
    """How many unknown files and unfinished parts a walk through the storage removed."""

    files: int = 0
    parts: int = 0


@task(
    name="knowledge.sweep_storage",
    queue=MAINTENANCE_QUEUE,
    resources=[KnowledgeRuntime],
    unique=Unique(),
    timeout=timedelta(days=1),
)
async def sweep_storage(ctx: Context) -> Walked:
    """Walk through all stored files, and remove those that crashes left behind."""
    return await KnowledgeSweeper(ctx.resource(KnowledgeRuntime)).storage()


class KnowledgeSweeper:
    """The steps of a sweep. Each is bounded and safe to repeat; the next sweep does the rest."""

    def __init__(self, runtime: KnowledgeRuntime) -> None:
        self._runtime = runtime
        self._sweeps = runtime.sweeps

    async def fold(self) -> int:
        """Add recorded changes to the counters."""
        folded = 0
        for _ in range(MAX_ROUNDS):
            async with self._runtime.tables.transaction_of_all() as on:
                number = await self._runtime.counters.fold(on)
            folded += number
            if not number:
                break
        return folded

    async def settle(self) -> int:
        """Record the missing outcomes of documents whose jobs have ended; return how many."""
        async with self._runtime.tables.transaction_of_all() as on:
            stranded = await self._sweeps.list_stranded_documents(on, MAX_STRANDED_DOCUMENTS)
        states = await self._runtime.app.states([job for _, job, _, _ in stranded])
        ended = defaultdict[str, dict[str, tuple[int, int]]](dict)
        for tenant, job, document, version in stranded:
            if job not in states or states[job].is_final:
                ended[tenant][job] = (document, version)
        return sum([await settle(self._runtime, tenant, jobs) for tenant, jobs in ended.items()])

    async def close_batches(self) -> int:
        """Close the batches of interrupted uploads."""
        async with self._runtime.tables.transaction_of_all() as on:
            batches = await self._sweeps.list_idle_batches(on, UPLOAD_ABANDONED_AFTER, MAX_BATCHES)
        closed = 0
        for batch in batches:
            try:
                status = await self._runtime.app.get_batch(batch)
            except BatchNotFound:
                continue
            if (
                status.state == "open"
                and status.created_at < datetime.now(UTC) - UPLOAD_ABANDONED_AFTER
            ):
                await self._runtime.app.close_batch(batch)
                closed += 1
        return closed

    async def resume(self) -> int:
        """Enqueue removal jobs again for what was deleted and is not removed yet."""
        async with self._runtime.tables.transaction_of_all() as on:
            removals = await self._runtime.removals.list_unfinished(on, MAX_UNFINISHED_REMOVALS)
        jobs = [
            remove.options(tenant=tenant).prepare(what, which) for tenant, what, which in removals
        ]
        await self._runtime.app.enqueue_many(jobs)
        return len(jobs)

    async def rows(self) -> int:
        """Remove drafts and vectors that no job waits for, and chunks that are in no document."""
        async with self._runtime.tables.transaction_of_all() as on:
            return (
                await self._sweeps.remove_drafts(on, MAX_ROWS)
                + await self._sweeps.remove_vectors(on, MAX_ROWS)
                + await self._sweeps.remove_chunks(on, MAX_ROWS)
            )

    async def editions(self) -> int:
        """Remove retired editions."""
        return await remove_retired(self._runtime, MAX_EDITIONS)

    async def indexes(self) -> int:
        """Drop indexes that are not needed, and build those that are missing or incomplete."""
        return await maintain_indexes(
            self._runtime, MAX_GROWING_EDITIONS, INDEX_GROWING_FROM_CHUNKS
        )

    async def orphans(self) -> int:
        """Remove files that no document needs."""
        async with self._runtime.tables.transaction_of_all() as on:
            files = await self._runtime.objects.list_orphans(on, MAX_ROWS)
        by_tenant = _digests_by_tenant(files).items()
        return sum(
            [await remove_files(self._runtime, tenant, digests) for tenant, digests in by_tenant]
        )

    async def storage(self) -> Walked:
        """Remove old files that have no row, and parts of files that were never finished.

        A file without a row gets a row before it is removed. An upload of the same content waits
        for that row, and then stores the file again. Files whose names do not come from Penstock
        stay. If another database uses the same storage, all files without a row stay, since they
        may belong to it.
        """
        files = parts = 0
        before = datetime.now(UTC) - STRAY_FILE_MIN_AGE
        is_shared = await self._is_shared()
        async for batch in self._runtime.storage.walk():
            left = [each.name for each in batch if is_part(each.name)]
            await self._runtime.storage.delete(left)
            parts += len(left)
            if is_shared:
                continue
            old = [each for each in batch if each.modified < before]
            for tenant, some in _objects_by_tenant(old).items():
                async with self._runtime.tables.transaction(tenant) as on:
                    strays = await self._runtime.objects.adopt(on, tenant, some)
                files += await remove_files(self._runtime, tenant, strays)
        return Walked(files, parts)

    async def _is_shared(self) -> bool:
        """Register this database in the storage; return whether others are registered there."""
        async with self._runtime.tables.transaction_of_all() as on:
            database = await self._sweeps.name_database(on)
        if others := await self._runtime.storage.register_database(database):
            logger.warning(
                "Another database stores its files in %s, too, so files that are unknown to this "
                "one, the %s, are not removed. Give each database a storage of its own. If the "
                "other database no longer exists, remove its marker: %s.",
                self._runtime.storage.place,
                database,
                ", ".join(others),
            )
        return bool(others)

    async def expired_files(self) -> int:
        """Remove files that are older than their tenant's retention. Their chunks stay."""
        removed = 0
        for _ in range(MAX_ROUNDS):
            async with self._runtime.tables.transaction_of_all() as on:
                files = await self._runtime.objects.list_expired(
                    on, self._runtime.settings.raw_days, FILES_PER_TRANSACTION
                )
            number = sum(
                [await self._remove_expired(*each) for each in _digests_by_tenant(files).items()]
            )
            removed += number
            if not number:
                break
        return removed

    async def _remove_expired(self, tenant: str, digests: list[bytes]) -> int:
        async with self._runtime.tables.transaction(tenant) as on:
            names = await self._runtime.objects.lock_expired(on, tenant, digests)
            await self._runtime.storage.delete(list(names.values()))
            await self._runtime.objects.remove(on, tenant, list(names))
        return len(names)


def _objects_by_tenant(
    batch: Iterable[StoredFile],
) -> dict[str, list[tuple[bytes, str, int, datetime]]]:
    """Group stored files by tenant, each as (digest, name, size, time) for `Objects.adopt`."""
    files = defaultdict(list)
    for each in batch:
        tenant = tenant_of(each.name.partition("/")[0]) if is_object(each.name) else None
        if tenant is not None:
            files[tenant].append((digest_of(each.name), each.name, each.bytes, each.modified))
    return files


def _digests_by_tenant(files: Iterable[tuple[str, bytes]]) -> dict[str, list[bytes]]:
    digests = defaultdict(list)
    for tenant, digest in files:
        digests[tenant].append(digest)
    return digests
