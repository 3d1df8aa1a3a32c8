"""Documents: what is wanted of them, what is found of them, how far they are."""

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


class Arrival(Struct, frozen=True):
    """A document that comes in: a stored file, or a URL whose content is not known yet."""

    path: str
    size: int = 0
    digest: bytes | None = None
    media_type: str | None = None
    url: str | None = None


class Mail(Struct, frozen=True):
    """The mail that documents are attached to; `depth` is how many mails they are nested in."""

    id: int
    depth: int
    title: str


class Labels(Struct, frozen=True):
    """What documents that come in are to be found by, besides what they say."""

    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}


UNLABELLED: Final = Labels()


class Wanted(Struct, frozen=True):
    """A version of a document that has to be brought in."""

    id: int
    path: str
    version: int
    size: int
    priority: int | None = None  # that of its upload, if it is brought in again


class Work(Struct, frozen=True):
    """All that is needed to bring a version of a document in."""

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


class Held(Struct, frozen=True):
    """What a source holds of a path."""

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
        """Why it is not in."""
        return self.error or self.reason or self.state

    @property
    def is_skipped(self) -> bool:
        """Whether there is nothing in it that is read here."""
        return self.state == "skipped"


class Document(Struct, frozen=True):
    """A document as it is now."""

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
    """The documents of tenants."""

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
        arrivals: Sequence[Arrival],
        labels: Labels,
        mail: Mail | None = None,
    ) -> list[Wanted]:
        """Those of the arrivals that have to be brought in; the others are there, or on the way."""
        rows = await on.fetch(
            self._sql("put_documents"),
            tenant,
            base,
            source,
            batch,
            [each.path for each in arrivals],
            [each.digest for each in arrivals],
            [each.size for each in arrivals],
            [each.media_type for each in arrivals],
            [each.url for each in arrivals],
            list(labels.tags),
            msgspec.json.encode(labels.metadata).decode(),
            mail and mail.id,
            mail.depth if mail else 0,
            mail and mail.title,
        )
        return [Wanted(*row) for row in rows]

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

    async def held(self, on: Connection, tenant: str, source: int) -> dict[str, Held]:
        """What a source holds, by path."""
        rows = await on.fetch(self._sql("list_held_documents"), tenant, source)
        return {path: Held(*rest) for path, *rest in rows}

    async def attached(self, on: Connection, tenant: str, document: int) -> dict[str, int]:
        """The ids of the attachments of a mail, by path."""
        rows = await on.fetch(self._sql("list_attachments"), tenant, document)
        return {path: number for path, number in rows}

    async def taken(
        self, on: Connection, tenant: str, source: int, paths: Sequence[str], mail: int
    ) -> set[str]:
        """Those of the paths at which documents stand that are not attached to this mail."""
        rows = await on.fetch(self._sql("find_taken_paths"), tenant, source, list(paths), mail)
        return {row["path"] for row in rows}

    async def begin(self, on: Connection, tenant: str, document: int, version: int) -> Work | None:
        """Begin with a version; None if it is not wanted any more."""
        row = await on.fetchrow(self._call("begin_document"), tenant, document, version)
        return None if row is None else work_from(row)

    async def end(
        self,
        on: Connection,
        tenant: str,
        document: int,
        version: int,
        state: State,
        reason: str | None,
        error: str | None,
    ) -> None:
        """A version has not gone in, and why."""
        sql = self._sql("fail_document")
        await on.fetch(sql, tenant, document, version, state, reason, error)

    async def withdraw(self, on: Connection, tenant: str, document: int, version: int) -> None:
        """Nothing is found of it any more, if this version is the newest; it is locked."""
        await on.execute(self._sql("withdraw_document"), tenant, document, version)

    async def fetched(
        self,
        on: Connection,
        tenant: str,
        document: int,
        version: int,
        digest: bytes,
        size: int,
        media_type: str | None,
    ) -> bool | None:
        """What its URL led to is a stored file now. Whether it is published; None: not wanted."""
        sql = self._sql("fetch_document")
        is_same: bool | None = await on.fetchval(
            sql, tenant, document, version, digest, size, media_type
        )
        return is_same

    async def confirm(self, on: Connection, tenant: str, document: int, version: int) -> int:
        """A version is what is published already; how many chunks that has."""
        sql = self._sql("confirm_document")
        return int(await on.fetchval(sql, tenant, document, version))

    async def retry(
        self, on: Connection, tenant: str, source: int, batch: str, most: int
    ) -> list[Wanted]:
        """Want some documents again that did not go in."""
        rows = await on.fetch(self._sql("retry_documents"), tenant, source, batch, most)
        return [Wanted(*row) for row in rows]

    async def waiting(
        self, on: Connection, tenant: str, source: int, after: int, most: int
    ) -> dict[int, str | None]:
        """Some documents of a source that have not ended, with their jobs."""
        rows = await on.fetch(self._sql("list_waiting_documents"), tenant, source, after, most)
        return {row["id"]: row["job"] for row in rows}

    async def cancel(self, on: Connection, tenant: str, jobs: Sequence[str]) -> None:
        """Their jobs were cancelled."""
        await on.execute(self._sql("cancel_documents"), tenant, list(jobs))

    async def weigh(
        self,
        on: Connection,
        tenant: str,
        source: int,
        paths: Sequence[str],
        digests: Sequence[bytes],
        sizes: Sequence[int],
    ) -> tuple[int, int, bool]:
        """What files would add to a source: documents, bytes, and whether anything."""
        row = await on.fetchrow(
            self._sql("measure_documents"), tenant, source, list(paths), list(digests), list(sizes)
        )
        assert row is not None
        return row["documents"], row["bytes"], row["changes"]

    async def unsettled(
        self, on: Connection, tenant: str, batch: str, most: int
    ) -> dict[str, tuple[int, int]]:
        """Documents of a batch that have not ended, as id and version, by their jobs."""
        rows = await on.fetch(self._sql("list_unsettled_documents"), tenant, batch, most)
        return {job: (document, version) for job, document, version in rows}

    async def get(self, on: Connection, tenant: str, document: int) -> Document:
        row = await on.fetchrow(self._sql("get_document"), tenant, document)
        if row is None:
            raise NotFound("document", str(document))
        return document_from(row)

    async def at(
        self, on: Connection, tenant: str, source: int, paths: Sequence[str]
    ) -> Sequence[Document]:
        """Those of a source that stand at these paths."""
        rows = await on.fetch(self._sql("find_documents"), tenant, source, list(paths))
        return [document_from(row) for row in rows]

    async def count_under_way(
        self, on: Connection, tenant: str, source: int, paths: Sequence[str]
    ) -> int:
        """How many of those at these paths have not ended."""
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
    """The work that a row of `begin_document_v1` or `peek_document` tells of."""
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
