"""The rows of documents, with their newest version, their published version and their state."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from penstock_apps.knowledge.errors import NotFound
from penstock_apps.knowledge.store.bases import Edition, edition_from
from penstock_apps.knowledge.store.tables import Connection, TablePool

State = Literal["pending", "processing", "completed", "skipped", "failed", "cancelled"]


class NewDocument(Struct, frozen=True):
    """A document to add: a stored file, or a URL whose content is not known yet."""

    path: str
    size: int = 0
    digest: bytes | None = None
    media_type: str | None = None
    url: str | None = None


class ParentMail(Struct, frozen=True):
    """The mail that documents are attached to. The documents are nested in `depth` mails."""

    id: int
    depth: int
    title: str


class Labels(Struct, frozen=True):
    """Tags and metadata for the documents of one request, by which searches can filter."""

    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}


UNLABELLED: Final = Labels()


class VersionToIngest(Struct, frozen=True):
    """A version of a document that has to be ingested."""

    id: int
    path: str
    version: int
    size: int
    priority: int | None = None  # The priority of its upload, if it is ingested again.


class Work(Struct, frozen=True):
    """All that a job needs to know to ingest a version of a document."""

    path: str
    media_type: str | None
    size: int
    digest: bytes | None
    object: str | None
    url: str | None
    published: int | None
    editions: tuple[Edition, ...]
    depth: int
    attached_to: str | None
    has_attachments: bool


class HeldDocument(Struct, frozen=True):
    """A document that a source has at a path, and the result of ingesting it."""

    id: int
    digest: bytes | None
    state: State
    reason: str | None
    error: str | None
    chunks: int
    embedded: int
    tags: list[str]
    parent: int | None

    @property
    def is_under_way(self) -> bool:
        return self.state in ("pending", "processing")

    @property
    def has_failed(self) -> bool:
        return self.state in ("failed", "cancelled")

    @property
    def why(self) -> str:
        """The reason why the document was not ingested."""
        return self.error or self.reason or self.state

    @property
    def is_skipped(self) -> bool:
        """Return whether the file was skipped because of its kind, or because it is empty."""
        return self.state == "skipped"


class Document(Struct, frozen=True):
    """The row of a document."""

    id: int
    tenant: str
    base: int
    source: int
    path: str
    version: int
    published: int | None
    state: State
    reason: str | None
    error: str | None
    media_type: str | None
    bytes: int
    url: str | None
    job: str | None
    batch: str | None
    requested_by: str | None
    kind: str | None
    title: str | None
    pages: int | None
    chunks: int
    tokens: int
    embedded: int
    tags: list[str]
    metadata: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None
    stored: bool
    object: str | None


class Documents:
    """Reads and writes the documents of tenants."""

    def __init__(self, tables: TablePool) -> None:
        self._sql = tables.statement
        self._call = tables.call

    async def put(
        self,
        on: Connection,
        tenant: str,
        base: int,
        source: int,
        batch: str,
        documents: Sequence[NewDocument],
        labels: Labels,
        mail: ParentMail | None = None,
    ) -> list[VersionToIngest]:
        """Write documents, and return those to ingest. The others are unchanged or under way."""
        rows = await on.fetch(
            self._sql("put_documents"),
            tenant,
            base,
            source,
            batch,
            [each.path for each in documents],
            [each.digest for each in documents],
            [each.size for each in documents],
            [each.media_type for each in documents],
            [each.url for each in documents],
            list(labels.tags),
            msgspec.json.encode(labels.metadata).decode(),
            mail and mail.id,
            mail.depth if mail else 0,
            mail and mail.title,
        )
        return [VersionToIngest(*row) for row in rows]

    async def note_jobs(
        self,
        on: Connection,
        tenant: str,
        documents: Sequence[int],
        jobs: Sequence[str],
        requested_by: str | None,
        priorities: Sequence[int],
    ) -> None:
        sql = self._sql("note_jobs")
        await on.execute(sql, tenant, list(documents), list(jobs), requested_by, list(priorities))

    async def list_held(self, on: Connection, tenant: str, source: int) -> dict[str, HeldDocument]:
        """List the documents of a source by path."""
        rows = await on.fetch(self._sql("list_held_documents"), tenant, source)
        return {path: HeldDocument(*rest) for path, *rest in rows}

    async def list_attachments(self, on: Connection, tenant: str, document: int) -> dict[str, int]:
        """List the ids of a mail's attachments by path."""
        rows = await on.fetch(self._sql("list_attachments"), tenant, document)
        return {path: number for path, number in rows}

    async def find_taken_paths(
        self, on: Connection, tenant: str, source: int, paths: Sequence[str], mail: int
    ) -> set[str]:
        """Return those of `paths` where the source has a document that `mail` does not contain."""
        rows = await on.fetch(self._sql("find_taken_paths"), tenant, source, list(paths), mail)
        return {row["path"] for row in rows}

    async def begin(self, on: Connection, tenant: str, document: int, version: int) -> Work | None:
        """Mark a version as processing and return its work, or None if it must not be ingested."""
        row = await on.fetchrow(self._call("begin_document"), tenant, document, version)
        return None if row is None else work_from(row)

    async def record_outcome(
        self,
        on: Connection,
        tenant: str,
        document: int,
        version: int,
        state: State,
        reason: str | None,
        error: str | None,
    ) -> None:
        """Record that a version was not ingested, and why."""
        sql = self._sql("fail_document")
        await on.fetch(sql, tenant, document, version, state, reason, error)

    async def withdraw(self, on: Connection, tenant: str, document: int, version: int) -> None:
        """Remove a locked document from searches, if this version is still the newest."""
        await on.execute(self._sql("withdraw_document"), tenant, document, version)

    async def record_fetch(
        self,
        on: Connection,
        tenant: str,
        document: int,
        version: int,
        digest: bytes,
        size: int,
        media_type: str | None,
    ) -> bool | None:
        """Record the file that a URL led to; return whether this content is published already.

        Return None if the version was superseded.
        """
        sql = self._sql("fetch_document")
        is_same: bool | None = await on.fetchval(
            sql, tenant, document, version, digest, size, media_type
        )
        return is_same

    async def confirm_unchanged(
        self, on: Connection, tenant: str, document: int, version: int
    ) -> int:
        """Record that a version equals the published one, and return the number of its chunks."""
        sql = self._sql("confirm_document")
        return int(await on.fetchval(sql, tenant, document, version))

    async def retry(
        self, on: Connection, tenant: str, source: int, batch: str, limit: int
    ) -> list[VersionToIngest]:
        """Mark some failed or cancelled documents of a source as pending again, and return them."""
        rows = await on.fetch(self._sql("retry_documents"), tenant, source, batch, limit)
        return [VersionToIngest(*row) for row in rows]

    async def list_unfinished(
        self, on: Connection, tenant: str, source: int, after: int, limit: int
    ) -> dict[int, str | None]:
        """Return the jobs of some unfinished documents of a source, by document."""
        rows = await on.fetch(self._sql("list_waiting_documents"), tenant, source, after, limit)
        return {row["id"]: row["job"] for row in rows}

    async def cancel(self, on: Connection, tenant: str, jobs: Sequence[str]) -> None:
        """Mark the unfinished documents of these cancelled jobs as cancelled."""
        await on.execute(self._sql("cancel_documents"), tenant, list(jobs))

    async def measure(
        self,
        on: Connection,
        tenant: str,
        source: int,
        paths: Sequence[str],
        digests: Sequence[bytes],
        sizes: Sequence[int],
    ) -> tuple[int, int, bool]:
        """Return how many documents and bytes files would add, and whether any file differs."""
        row = await on.fetchrow(
            self._sql("measure_documents"), tenant, source, list(paths), list(digests), list(sizes)
        )
        assert row is not None
        return row["documents"], row["bytes"], row["changes"]

    async def list_unsettled(
        self, on: Connection, tenant: str, batch: str, limit: int
    ) -> dict[str, tuple[int, int]]:
        """Return the id and version of some unfinished documents of a batch, by job."""
        rows = await on.fetch(self._sql("list_unsettled_documents"), tenant, batch, limit)
        return {job: (document, version) for job, document, version in rows}

    async def get(self, on: Connection, tenant: str, document: int) -> Document:
        row = await on.fetchrow(self._sql("get_document"), tenant, document)
        if row is None:
            raise NotFound("document", str(document))
        return document_from(row)

    async def find_at_paths(
        self, on: Connection, tenant: str, source: int, paths: Sequence[str]
    ) -> Sequence[Document]:
        """Return the documents of a source that are at these paths."""
        rows = await on.fetch(self._sql("find_documents"), tenant, source, list(paths))
        return [document_from(row) for row in rows]

    async def count_unfinished(
        self, on: Connection, tenant: str, source: int, paths: Sequence[str]
    ) -> int:
        """Count the documents at these paths that have no outcome yet."""
        sql = self._sql("count_unfinished_documents")
        return int(await on.fetchval(sql, tenant, source, paths))

    async def list(
        self,
        on: Connection,
        tenant: str,
        *,
        base: int | None = None,
        source: int | None = None,
        state: str | None = None,
        batch: str | None = None,
        path: str | None = None,
        after: int | None = None,
        limit: int = 100,
    ) -> list[Document]:
        sql = self._sql("list_documents")
        rows = await on.fetch(sql, tenant, base, source, state, batch, after, limit, path)
        return [document_from(row) for row in rows]


def work_from(row: Any) -> Work:
    """Read the work from a row of `begin_document_v1` or `peek_document`."""
    return Work(
        path=row["path"],
        media_type=row["media_type"],
        size=row["bytes"],
        digest=row["digest"],
        object=row["object"] if row["stored"] else None,
        url=row["url"],
        published=row["published"],
        editions=tuple(edition_from(text) for text in row["editions"]),
        depth=row["depth"],
        attached_to=row["attached_to"],
        has_attachments=row["has_attachments"],
    )


def document_from(row: Any) -> Document:
    return Document(**{**row, "metadata": msgspec.json.decode(row["metadata"])})
