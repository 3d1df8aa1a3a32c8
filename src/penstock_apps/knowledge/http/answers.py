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
    """The number of documents in each state, and in `total`.

    `state` is the state of all documents together. `eta` is the remaining time in seconds, or null
    if it cannot be estimated.
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
    """The progress of a source. `batch` is the newest batch that adds documents to it.

    `requested_by` is the person who requested that batch, or the key, such as `key:deploy`.
    """

    source: str
    name: str
    batch: str | None
    requested_by: str | None


class Outcome(Struct, frozen=True, kw_only=True):
    """The outcome of one document.

    `unchanged` is true if an earlier request has ingested this content, or is ingesting it.
    """

    id: str
    path: str
    state: State
    reason: str | None
    error: str | None
    chunks: int
    unchanged: bool


class Refused(Struct, frozen=True, kw_only=True):
    """A file of an upload that was not accepted.

    `reason` is `too_large`, or `twice` if the upload has another file with this name and different
    content.
    """

    path: str
    reason: str
    error: str


class Uploaded(Struct, frozen=True, kw_only=True):
    """The result of an upload.

    `jobCount` documents are being ingested by the `batch`. `unchanged` documents had this content
    before. `pending` documents have this content too, but an earlier request is still ingesting
    them: they count in the progress of `knowledgeSourceIds`, not in that of `batch`.

    `documents` has the outcome of each document of a small upload. `refusedCount` files were not
    accepted, and `refused` names the first hundred of them.
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
    """A knowledge base, with the settings that searches use now.

    After a change of settings, `building` is the batch that cuts and embeds all documents anew, and
    `error` says why that failed.
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
    """A page of the knowledge bases of a tenant, by name.

    Pass `after` to get the next page. It is null on the last one.
    """

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
    """A page of sources, newest first.

    Pass `after` to get the next page. It is null on the last one.
    """

    sources: list[SourceShown]
    after: str | None


class Cancelled(Struct, frozen=True, kw_only=True):
    """How many documents were cancelled."""

    cancelled: int


class Deleted(Struct, frozen=True, kw_only=True):
    """What was deleted. It is no longer found, and a job removes its data."""

    deleted: str


class TenantShown(Struct, frozen=True, kw_only=True):
    """How much a tenant has, and its settings.

    For a setting that is null, the installation's setting applies.
    """

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
    """A document in its present state.

    `version` is the version of its newest content, and `published` the version that searches find.
    `reason` and `error` say why a document was not ingested. `stored` is true while its file is
    kept.
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
    """A page of documents, newest first.

    Pass `after` to get the next page. It is null on the last one.
    """

    documents: list[DocumentShown]
    after: str | None


class ChunkShown(Struct, frozen=True, kw_only=True):
    """A chunk: a part of a document that searches find."""

    id: str
    position: int
    page: int | None
    heading: str
    text: str
    tokens: int


class ChunkPage(Struct, frozen=True, kw_only=True):
    """A page of chunks in their order.

    Pass `after` to get the next page. It is null on the last one.
    """

    chunks: list[ChunkShown]
    after: int | None


class FileLink(Struct, frozen=True, kw_only=True):
    """A link to one file. It works without a key for `expires_in` seconds."""

    url: str
    expires_in: int


class Found(Struct, frozen=True, kw_only=True):
    """A chunk that may answer the question, with the document, page and heading that it is from.

    `base` is the name of its knowledge base. `highlight` is a short part of it, with the words of
    the question in Markdown's bold. `others` counts further documents with the same text.
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
    """The chunks that were found, best first."""

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
