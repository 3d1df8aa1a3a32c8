"""Add files to a source: store them first, then write their documents and jobs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from penstock import BatchHandle, Request
from penstock.storage.names import object_name
from penstock.storage.storage import NewFile
from penstock_apps.knowledge import tasks
from penstock_apps.knowledge.errors import TenantInactive
from penstock_apps.knowledge.store.documents import Labels, NewDocument, VersionToIngest
from penstock_apps.knowledge.store.sources import Source
from penstock_apps.knowledge.store.tables import Connection
from penstock_apps.knowledge.store.tenants import Quotas

if TYPE_CHECKING:
    from penstock_apps.knowledge.library import Library


class Incoming(Struct, frozen=True):
    """A file to add: its path in the source, where it is on disk, and its SHA-256."""

    path: str
    file: Path
    size: int
    digest: bytes
    media_type: str | None = None


class Receipt(Struct, frozen=True):
    """What was added: the documents to ingest, and how many were unchanged.

    `pending` is the number of documents that were added before and are still being ingested. They
    may still fail.
    """

    source: int
    batch: str
    documents: tuple[VersionToIngest, ...]
    unchanged: int
    pending: int = 0

    @property
    def total(self) -> int:
        return len(self.documents)


class Intake:
    """Adds documents to a source in any number of calls. All jobs belong to one batch."""

    def __init__(
        self, library: Library, source: Source, batch: BatchHandle, labels: Labels, priority: int
    ) -> None:
        self._library = library
        self._labels = labels
        self._priority = priority
        self.source = source
        self.batch = batch
        self._versions: list[VersionToIngest] = []
        # Files whose content changed after they were hashed.
        self.changed: list[Incoming] = []
        self._unchanged = 0
        self._pending = 0

    @property
    def receipt(self) -> Receipt:
        return Receipt(
            self.source.id, self.batch.id, tuple(self._versions), self._unchanged, self._pending
        )

    async def add(self, files: Sequence[Incoming]) -> list[VersionToIngest]:
        """Store files, then write their documents and jobs in one transaction.

        Return the versions to ingest. Once this method has returned, jobs ingest them even if this
        process dies. If it fails, only stored files remain, which a sweep removes.
        """
        files = list({each.path: each for each in files}.values())
        held = [
            (each.digest, object_name(self._library.tenant, each.digest), each.size)
            for each in files
        ]
        runtime, tenant = self._library.runtime, self._library.tenant
        async with self._library.transaction() as on:
            await self._check(on, files)
            await runtime.objects.hold(on, tenant, held)
        stored = await self._store(files)
        arrivals = [
            NewDocument(each.path, each.size, each.digest, each.media_type) for each in stored
        ]
        async with self._library.transaction() as on:
            versions = await self._write(on, arrivals)
            known = {each.path for each in stored} - {each.path for each in versions}
            pending = await self._count_unfinished(on, known)
            await runtime.objects.release(on, tenant, [each.digest for each in files])
        self._pending += pending
        self._unchanged += len(known) - pending
        return versions

    async def add_url(self, url: str) -> list[VersionToIngest]:
        """Write a document whose job fetches the content from a URL."""
        async with self._library.transaction() as on:
            await self._check(on, [])
            return await self._write(on, [NewDocument(url, url=url)])

    async def _count_unfinished(self, on: Connection, paths: Collection[str]) -> int:
        if not paths:
            return 0
        count = self._library.runtime.documents.count_unfinished
        return await count(on, self._library.tenant, self.source.id, list(paths))

    async def _store(self, files: Sequence[Incoming]) -> list[Incoming]:
        """Store files. Return those that have not changed since they were hashed."""
        new_files = [NewFile(each.file, each.size, each.digest) for each in files]
        changed = await self._library.runtime.storage.put_all(self._library.tenant, new_files)
        self.changed += [each for each in files if each.file in changed]
        return [each for each in files if each.file not in changed]

    async def _write(
        self, on: Connection, arrivals: Sequence[NewDocument]
    ) -> list[VersionToIngest]:
        runtime, tenant = self._library.runtime, self._library.tenant
        limits = await self._limits(on)
        await runtime.sources.lock(on, tenant, self.source.id)
        versions = await runtime.documents.put(
            on,
            tenant,
            self.source.base,
            self.source.id,
            self.batch.id,
            arrivals,
            self._labels,
        )
        if versions:
            if limits:
                (await runtime.tenants.get(on, tenant)).check(limits)
            await self._enqueue(on, versions)
        return versions

    async def _enqueue(self, on: Connection, versions: Sequence[VersionToIngest]) -> None:
        batch = await self._library.client.inside(on).batch_handle(self.batch.id)
        jobs = await batch.enqueue_many(self._request(each) for each in versions)
        ids = [each.id for each in jobs]
        note = self._library.runtime.documents.note_jobs
        documents = [each.id for each in versions]
        priorities = [self._priority_of(each) for each in versions]
        await note(on, self._library.tenant, documents, ids, self._library.requested_by, priorities)
        self._versions += versions

    def _request(self, version: VersionToIngest) -> Request[Any]:
        return tasks.ingest_request(
            self._library.runtime.settings,
            version,
            tenant=self._library.tenant,
            priority=self._priority_of(version),
            requested_by=self._library.requested_by,
        )

    def _priority_of(self, version: VersionToIngest) -> int:
        return self._priority if version.priority is None else version.priority

    async def retry(self, limit: int) -> list[VersionToIngest]:
        """Enqueue up to `limit` failed or cancelled documents again, and return them."""
        runtime, tenant = self._library.runtime, self._library.tenant
        async with self._library.transaction() as on:
            await self._check(on, [])
            await runtime.sources.lock(on, tenant, self.source.id)
            versions = await runtime.documents.retry(
                on, tenant, self.source.id, self.batch.id, limit
            )
            await self._enqueue(on, versions)
        return versions

    async def _check(self, on: Connection, files: Sequence[Incoming]) -> None:
        """Raise QuotaExceeded or TenantInactive if these files must not be added."""
        name, runtime = self._library.tenant, self._library.runtime
        limits = await self._limits(on)
        if limits and files:
            tenant = await runtime.tenants.get(on, name)
            documents, size, changes = await runtime.documents.measure(
                on,
                name,
                self.source.id,
                [each.path for each in files],
                [each.digest for each in files],
                [each.size for each in files],
            )
            if changes:
                tenant.check(limits, documents, size)

    async def _limits(self, on: Connection) -> Quotas | None:
        """Return the tenant's quotas, or None if there are none. With quotas, lock the tenant.

        Raise TenantInactive if the tenant is switched off or deleted.
        """
        runtime, name = self._library.runtime, self._library.tenant
        tenant = await runtime.tenants.get(on, name)
        if not tenant.active:
            raise TenantInactive(name)
        limits = tenant.limits(runtime.settings)
        if limits:
            await runtime.tenants.lock(on, name, exclusive=True)
        return limits
