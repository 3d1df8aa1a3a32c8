"""The attachments of a mail. Each becomes a document of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any

from msgspec import Struct

from penstock import Context, Request
from penstock.storage.names import object_name
from penstock_apps.knowledge.errors import AttachmentsOverQuota, NotFound, QuotaExceeded
from penstock_apps.knowledge.file_names import display_name
from penstock_apps.knowledge.ingest.document_job import Superseded
from penstock_apps.knowledge.maintenance.delete import remove
from penstock_apps.knowledge.runtime import KnowledgeRuntime
from penstock_apps.knowledge.store.documents import (
    Labels,
    NewDocument,
    ParentMail,
    VersionToIngest,
    Work,
)
from penstock_apps.knowledge.store.tables import Connection
from penstock_apps.knowledge.text import Attachment, Extracted

MAX_NAME_CHARACTERS = 150
UNNAMED = "attachment"


class StoredAttachment(Struct, frozen=True):
    """An attachment whose content is stored."""

    size: int
    digest: bytes
    media_type: str | None


class AttachmentIntake:
    """Stores the attachments of a mail, and adds their documents and jobs to the mail's batch."""

    def __init__(
        self,
        ctx: Context,
        runtime: KnowledgeRuntime,
        document: int,
        version: int,
        work: Work,
        request: Callable[[VersionToIngest], Request[Any]],
    ) -> None:
        self._ctx = ctx
        self._runtime = runtime
        self._tenant = ctx.job.tenant
        self._document = document
        self._version = version
        self._work = work
        self._request = request

    async def run(self, mail: Extracted) -> None:
        """Add new attachments and delete those that the mail no longer has. It is idempotent."""
        if not mail.attachments and not self._work.has_attachments:
            return
        files = [await self._store(each) for each in mail.attachments]
        names = [each.name for each in mail.attachments]
        title = mail.title or PurePosixPath(self._work.path).name
        try:
            async with self._runtime.tables.transaction(self._tenant) as on:
                await self._write(on, files, names, title)
        except NotFound:
            raise Superseded from None
        except QuotaExceeded as error:
            raise AttachmentsOverQuota(str(error)) from error

    async def _store(self, attachment: Attachment) -> StoredAttachment:
        """Store a file, and hold it so that no sweep removes it before its document is written."""
        digest, size = sha256(attachment.content).digest(), len(attachment.content)
        held = (digest, object_name(self._tenant, digest), size)
        async with self._runtime.tables.transaction(self._tenant) as on:
            await self._ctx.fence(on)
            await self._runtime.objects.hold(on, self._tenant, [held])
        file = self._runtime.folder / f"{self._document}-{self._version}-attached"
        try:
            file.write_bytes(attachment.content)
            await self._runtime.storage.put(self._tenant, file, digest)
        finally:
            file.unlink(missing_ok=True)
        return StoredAttachment(size, digest, attachment.media_type)

    async def _write(
        self, on: Connection, files: list[StoredAttachment], names: list[str], title: str
    ) -> None:
        runtime, tenant = self._runtime, self._tenant
        await self._ctx.fence(on)
        mail = await runtime.documents.get(on, tenant, self._document)
        limits = (await runtime.tenants.get(on, tenant)).limits(runtime.settings)
        if limits:
            await runtime.tenants.lock(on, tenant, exclusive=True)
        await runtime.sources.lock(on, tenant, mail.source)
        # A deletion of the mail waits for this lock, and then finds its attachments.
        locked = await runtime.drafts.lock(on, tenant, [self._document])
        if locked.get(self._document) != self._version:
            raise Superseded
        paths = await self._free_paths(on, mail.source, names)
        documents = [
            NewDocument(path, each.size, each.digest, each.media_type)
            for path, each in zip(paths, files, strict=True)
        ]
        versions = await runtime.documents.put(
            on,
            tenant,
            mail.base,
            mail.source,
            mail.batch or "",
            documents,
            Labels(tuple(mail.tags), mail.metadata),
            ParentMail(self._document, self._work.depth + 1, title),
        )
        await runtime.objects.release(on, tenant, [each.digest for each in files])
        if versions and limits:
            (await runtime.tenants.get(on, tenant)).check(limits)
        await self._enqueue(on, versions)
        await delete_attachments(self._ctx, on, self._document, paths)

    async def _free_paths(self, on: Connection, source: int, names: list[str]) -> list[str]:
        """Return a path for each attachment that no other document of the source has.

        The caller must have locked the source.
        """
        taken = set[str]()
        while True:
            paths = attachment_paths(self._work.path, names, taken)
            others = await self._runtime.documents.find_taken_paths(
                on, self._tenant, source, paths, self._document
            )
            if not others:
                return paths
            taken |= others

    async def _enqueue(self, on: Connection, versions: list[VersionToIngest]) -> None:
        if not versions:
            return
        job, client = self._ctx.job, self._runtime.app.for_tenant(self._tenant).inside(on)
        batch = await client.batch_handle(job)
        jobs = await batch.enqueue_many([self._request(each) for each in versions])
        await self._runtime.documents.note_jobs(
            on,
            self._tenant,
            [each.id for each in versions],
            [each.id for each in jobs],
            job.requested_by,
            [job.priority] * len(versions),
        )


async def delete_attachments(
    ctx: Context, on: Connection, mail: int, but: Collection[str] = ()
) -> None:
    """Delete the attachments of a mail, except those at the paths in `but`."""
    runtime, tenant = ctx.resource(KnowledgeRuntime), ctx.job.tenant
    attached = await runtime.documents.list_attachments(on, tenant, mail)
    gone = [each for path, each in attached.items() if path not in but]
    if gone:
        marked = await runtime.removals.mark_documents(on, tenant, gone, attached_to=mail)
        removing = remove.options(tenant=tenant, requested_by=ctx.job.requested_by)
        jobs = [removing.prepare("document", each) for each in marked]
        await runtime.app.for_tenant(tenant).inside(on).enqueue_many(jobs)


def attachment_paths(mail: str, names: list[str], taken: Collection[str] = ()) -> list[str]:
    """Return a path below the mail for each attachment. All differ, and none is in `taken`."""
    paths = list[str]()
    for name in names:
        named = PurePosixPath(_file_name(name)[-MAX_NAME_CHARACTERS:])
        path, number = f"{mail}/{named.name}", 1
        while path in paths or path in taken:
            number += 1
            path = f"{mail}/{named.stem} ({number}){named.suffix}"
        paths.append(path)
    return paths


def _file_name(raw: str) -> str:
    """Return the name of an attachment without slashes and control characters."""
    return display_name(raw.replace("/", "_").replace("\\", "_"), UNNAMED)
