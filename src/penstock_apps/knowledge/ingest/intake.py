"""Files on their way into a source: stored first, then written down with their jobs."""

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
    """A file at hand, named as its source names it, with the SHA-256 of its content."""

    path: str
    file: Path
    size: int
    digest: bytes
    media_type: str | None = None


class Receipt(Struct, frozen=True):
    """What was taken in: which have to be brought in, and how many are there already.

    `pending` are on their way by another batch: they may still fail.
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
    """Adds documents to a source, as many calls as it takes, in one batch of jobs."""

    def __init__(
        self, library: Library, source: Source, batch: BatchHandle, labels: Labels, priority: int
    ) -> None:
        self._library = library
        self._labels = labels
        self._priority = priority
        self.source = source
        self.batch = batch
        self._wanted: list[VersionToIngest] = []
        # Files that were not what they were when they were looked at.
        self.changed: list[Incoming] = []
        self._unchanged = 0
        self._pending = 0

    @property
    def receipt(self) -> Receipt:
        return Receipt(
            self.source.id, self.batch.id, tuple(self._wanted), self._unchanged, self._pending
        )

    async def add(self, files: Sequence[Incoming]) -> list[VersionToIngest]:
        """Store files, then write their documents and jobs in one transaction; those that are new.

        Whatever happens after it returns, they come in. Before, nothing of them is left but files
        that are swept away.
        """
        last = {each.path: each for each in files}
        given = list(last.values())
        held = [
            (each.digest, object_name(self._library.tenant, each.digest), each.size)
            for each in given
        ]
        runtime, tenant = self._library.runtime, self._library.tenant
        async with self._library.transaction() as on:
            await self._check(on, given)
            await runtime.objects.hold(on, tenant, held)
        stored = await self._store(given)
        arrivals = [
            NewDocument(each.path, each.size, each.digest, each.media_type) for each in stored
        ]
        async with self._library.transaction() as on:
            wanted = await self._write(on, arrivals)
            known = {each.path for each in stored} - {each.path for each in wanted}
            pending = await self._under_way(on, known)
            await runtime.objects.release(on, tenant, [each.digest for each in given])
        self._pending += pending
        self._unchanged += len(known) - pending
        return wanted

    async def add_url(self, url: str) -> list[VersionToIngest]:
        """Write a document down whose content is still to be fetched."""
        async with self._library.transaction() as on:
            await self._check(on, [])
            return await self._write(on, [NewDocument(url, url=url)])

    async def _under_way(self, on: Connection, paths: Collection[str]) -> int:
        if not paths:
            return 0
        count = self._library.runtime.documents.count_unfinished
        return await count(on, self._library.tenant, self.source.id, list(paths))

    async def _store(self, files: Sequence[Incoming]) -> list[Incoming]:
        """Store files; those that have not changed meanwhile."""
        given = [NewFile(each.file, each.size, each.digest) for each in files]
        changed = await self._library.runtime.storage.put_all(self._library.tenant, given)
        self.changed += [each for each in files if each.file in changed]
        return [each for each in files if each.file not in changed]

    async def _write(
        self, on: Connection, arrivals: Sequence[NewDocument]
    ) -> list[VersionToIngest]:
        runtime, tenant = self._library.runtime, self._library.tenant
        limits = await self._limits(on)
        await runtime.sources.lock(on, tenant, self.source.id)
        wanted = await runtime.documents.put(
            on,
            tenant,
            self.source.base,
            self.source.id,
            self.batch.id,
            arrivals,
            self._labels,
        )
        if wanted:
            if limits:
                (await runtime.tenants.get(on, tenant)).check(limits)
            await self._enqueue(on, wanted)
        return wanted

    async def _enqueue(self, on: Connection, wanted: Sequence[VersionToIngest]) -> None:
        batch = await self._library.client.inside(on).batch_handle(self.batch.id)
        jobs = await batch.enqueue_many(self._request(each) for each in wanted)
        ids = [each.id for each in jobs]
        note = self._library.runtime.documents.note_jobs
        documents = [each.id for each in wanted]
        priorities = [self._priority_of(each) for each in wanted]
        await note(on, self._library.tenant, documents, ids, self._library.requested_by, priorities)
        self._wanted += wanted

    def _request(self, wanted: VersionToIngest) -> Request[Any]:
        return tasks.ingest_request(
            self._library.runtime.settings,
            wanted,
            tenant=self._library.tenant,
            priority=self._priority_of(wanted),
            requested_by=self._library.requested_by,
        )

    def _priority_of(self, wanted: VersionToIngest) -> int:
        return self._priority if wanted.priority is None else wanted.priority

    async def retry(self, most: int) -> list[VersionToIngest]:
        """Write some documents down again that did not go in."""
        runtime, tenant = self._library.runtime, self._library.tenant
        async with self._library.transaction() as on:
            await self._check(on, [])
            await runtime.sources.lock(on, tenant, self.source.id)
            wanted = await runtime.documents.retry(on, tenant, self.source.id, self.batch.id, most)
            await self._enqueue(on, wanted)
        return wanted

    async def _check(self, on: Connection, files: Sequence[Incoming]) -> None:
        """Refuse what the tenant may not have, before anything is stored."""
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
        """The tenant's quotas; who has some writes one after the other. TenantInactive."""
        runtime, name = self._library.runtime, self._library.tenant
        tenant = await runtime.tenants.get(on, name)
        if not tenant.active:
            raise TenantInactive(name)
        limits = tenant.limits(runtime.settings)
        if limits:
            await runtime.tenants.lock(on, name, exclusive=True)
        return limits
