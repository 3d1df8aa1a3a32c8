"""The JSON bodies of answers. Ids are strings, as everywhere in the API."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Self

from msgspec import Struct, field

from penstock_apps.knowledge.chunk import Chunking
from penstock_apps.knowledge.embed import Embedding
from penstock_apps.knowledge.search import Hit
from penstock_apps.knowledge.store.bases import Base
from penstock_apps.knowledge.store.counts import Counts, OverallState
from penstock_apps.knowledge.store.documents import Document, State
from penstock_apps.knowledge.store.sources import Kind, Source
from penstock_apps.knowledge.store.tenants import Quotas, Tenant


class KnowledgeProgress(Struct, frozen=True, kw_only=True):
    """Documents by state, which make the total; `eta` are seconds, null if nobody can say.

    `state` is what has come of all of them together.
    """

    total: int
    pending: int
    processing: int
    completed: int
    skipped: int
    failed: int
    cancelled: int
    state: OverallState
    eta: float | None = None

    @classmethod
    def of(cls, counts: Counts, eta: float | None = None, **more: Any) -> Self:
        numbers = {name: getattr(counts, name) for name in Counts.__struct_fields__}
        state = counts.state
        return cls(**numbers, state=state, eta=eta if state == "processing" else 0.0, **more)


class SourceProgress(KnowledgeProgress, frozen=True, kw_only=True):
    """How far a source is; `batch` is the newest that brings documents into it.

    `requested_by` is the person who asked for that, or the key: `key:deploy`.
    """

    source: str
    name: str
    batch: str | None
    requested_by: str | None


class Outcome(Struct, frozen=True, kw_only=True):
    """What has become of one document. `unchanged`: its content was there, or on its way."""

    id: str
    path: str
    state: State
    reason: str | None
    error: str | None
    chunks: int
    unchanged: bool


class Refused(Struct, frozen=True, kw_only=True):
    """A file of an upload that was not taken: it is `too_large`, or came `twice` with its name."""

    path: str
    reason: str
    error: str


class Uploaded(Struct, frozen=True, kw_only=True):
    """What was taken in: `jobCount` documents are brought in now, `unchanged` were there already.

    `pending` have this content and were on their way, by a request before: `batch` knows nothing
    of them, the progress of `knowledgeSourceIds` does.

    `documents` has the outcome of each, for uploads that are small. `refused` names the first
    hundred of the `refusedCount` files that were not taken.
    """

    batch: str
    job_count: int = field(name="jobCount")
    knowledge_source_ids: list[str] = field(name="knowledgeSourceIds")
    base: str
    unchanged: int
    pending: int = 0
    refused: list[Refused]
    refused_count: int = field(name="refusedCount", default=0)
    documents: list[Outcome] | None = None


class BaseShown(Struct, frozen=True, kw_only=True):
    """A knowledge base, and the settings of the edition that is searched.

    `building` is the batch of a new edition that is on its way, after a change of settings, and
    `error` says why it did not come to be.
    """

    id: str
    name: str
    language: str
    embedding: Embedding
    chunking: Chunking
    dimensions: int
    building: str | None
    error: str | None
    created_at: datetime

    @classmethod
    def of(cls, base: Base) -> BaseShown:
        return cls(
            id=str(base.id),
            name=base.name,
            language=base.language,
            embedding=base.edition.recipe.embedding,
            chunking=base.edition.recipe.chunking,
            dimensions=base.edition.dimensions,
            building=base.next_batch,
            error=base.next_error,
            created_at=base.created_at,
        )


class Bases(Struct, frozen=True, kw_only=True):
    """The knowledge bases of a tenant, by name, and what to pass as `after` for more."""

    bases: list[BaseShown]
    after: str | None


class SourceShown(Struct, frozen=True, kw_only=True):
    """A source of documents."""

    id: str
    base: str
    kind: Kind
    name: str
    batch: str | None
    requested_by: str | None
    created_at: datetime
    ended_at: datetime | None

    @classmethod
    def of(cls, source: Source) -> SourceShown:
        return cls(
            id=str(source.id),
            base=str(source.base),
            kind=source.kind,
            name=source.name,
            batch=source.batch,
            requested_by=source.requested_by,
            created_at=source.created_at,
            ended_at=source.ended_at,
        )


class SourcePage(Struct, frozen=True, kw_only=True):
    """Sources, newest first; `after` is where the next page begins, null at the end."""

    sources: list[SourceShown]
    after: str | None


class Cancelled(Struct, frozen=True, kw_only=True):
    """How many documents are not brought in any more."""

    cancelled: int


class Deleted(Struct, frozen=True, kw_only=True):
    """What nobody sees any more. A job removes all of it."""

    deleted: str


class TenantShown(Struct, frozen=True, kw_only=True):
    """What a tenant has, and what is set for it; what is null holds for all."""

    tenant: str
    active: bool
    quotas: Quotas
    inline: bool | None
    background: bool | None
    plan: str | None
    raw_days: float | None
    documents: int
    bytes: int
    chunks: int
    tokens: int

    @classmethod
    def of(cls, name: str, tenant: Tenant) -> TenantShown:
        return cls(
            tenant=name,
            active=tenant.active,
            quotas=tenant.settings.quotas,
            inline=tenant.settings.inline,
            background=tenant.settings.background,
            plan=tenant.settings.plan,
            raw_days=tenant.settings.raw_days,
            documents=tenant.documents,
            bytes=tenant.bytes,
            chunks=tenant.chunks,
            tokens=tenant.tokens,
        )


class DocumentShown(Struct, frozen=True, kw_only=True):
    """A document as it is now.

    `version` is of the content that is wanted, `published` of the one that is found. `reason` and
    `error` say why it is not in. `stored`: its file is kept still.
    """

    id: str
    base: str
    source: str
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

    @classmethod
    def of(cls, document: Document) -> DocumentShown:
        values = {name: getattr(document, name) for name in cls.__struct_fields__}
        ids = {name: str(values[name]) for name in ("id", "base", "source")}
        return cls(**values | ids)


class DocumentPage(Struct, frozen=True, kw_only=True):
    """Documents, newest first; `after` is where the next page begins, null at the end."""

    documents: list[DocumentShown]
    after: str | None


class ChunkShown(Struct, frozen=True, kw_only=True):
    """A piece of a document that is found as one."""

    id: str
    position: int
    page: int | None
    heading: str
    text: str
    tokens: int


class ChunkPage(Struct, frozen=True, kw_only=True):
    """Pieces in their order; `after` is where the next page begins, null at the end."""

    chunks: list[ChunkShown]
    after: int | None


class FileLink(Struct, frozen=True, kw_only=True):
    """An address that opens one file without a key, for so many seconds."""

    url: str
    expires_in: int


class Found(Struct, frozen=True, kw_only=True):
    """A piece that may answer the question, with its citation: document, page, heading.

    `base` is the name of the knowledge base it is in. `highlight` is a short part of it, with the
    words of the question in Markdown's bold; `others` counts further documents that hold the same
    text.
    """

    document: str
    source: str
    path: str
    title: str | None
    url: str | None
    page: int | None
    heading: str
    position: int
    text: str
    highlight: str | None
    score: float
    others: int
    base: str

    @classmethod
    def of(cls, hit: Hit) -> Found:
        values = {name: getattr(hit, name) for name in cls.__struct_fields__}
        return cls(**values | {"document": str(hit.document), "source": str(hit.source)})


class Hits(Struct, frozen=True, kw_only=True):
    """What was found, best first."""

    hits: list[Found]


def outcomes(documents: Sequence[Document], batch: str) -> list[Outcome]:
    """Return the outcomes of documents, as the answer of an upload lists them."""
    return [
        Outcome(
            id=str(each.id),
            path=each.path,
            state=each.state,
            reason=each.reason,
            error=each.error,
            chunks=each.chunks,
            unchanged=each.batch != batch,
        )
        for each in documents
    ]
