"""The job that ingests one version of a document. If it has a URL, the job fetches it first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from penstock import Context
from penstock.net.fetch import FetchedPage, FetchLimits, fetch
from penstock.net.guard import Allowed
from penstock.storage.names import belongs_to, object_name
from penstock_apps.knowledge.chunk import split
from penstock_apps.knowledge.errors import FILE_GONE, OverQuota, Unreadable
from penstock_apps.knowledge.extract import ReadLimits, extract
from penstock_apps.knowledge.runtime import KnowledgeRuntime
from penstock_apps.knowledge.settings import FETCH_PREFIX
from penstock_apps.knowledge.store.bases import Edition
from penstock_apps.knowledge.store.documents import Work
from penstock_apps.knowledge.text import Extracted, Piece

# Another job may remove a vector that this one counted on. Then the text is embedded here.
MAX_PUBLISH_ATTEMPTS = 5


class Ingested(Struct, frozen=True):
    """The result of the job: the number of chunks, and how many texts had to be embedded."""

    chunks: int
    embedded: int


class Superseded(Exception):
    """The version must not be ingested: it was superseded or deleted, or its tenant is inactive."""


class EditionRetired(Exception):
    """The edition was retired while the job ran. The job has to start again with the new one."""


class DocumentJob:
    """Ingests a document: extracts its text, splits it, embeds new texts and publishes chunks."""

    def __init__(
        self,
        ctx: Context,
        runtime: KnowledgeRuntime,
        document: int,
        version: int,
        work: Work,
        extracted: Extracted | None = None,
        *,
        attach: Callable[[Extracted], Awaitable[None]] | None = None,
    ) -> None:
        self._ctx = ctx
        self._runtime = runtime
        self._tenant = ctx.job.tenant
        self._document = document
        self._version = version
        self._work = work
        self._extracted = extracted
        self._attach = attach

    async def run(self) -> Ingested:
        """Add the document to every edition of its base. Publishing the last completes the job."""
        extracted = await self._read()
        *others, last = self._in_order()
        for edition in others:
            await self._add_to(edition, extracted, completes=False)
        return await self._add_to(last, extracted, completes=True)

    def _in_order(self) -> list[Edition]:
        """Return the editions with the live one at the end.

        Publishing the final edition completes the job, so that must be the live one.
        """
        return sorted(self._work.editions, key=lambda edition: edition.live)

    async def _read(self) -> Extracted:
        if self._extracted is not None:
            return self._extracted
        path = self._runtime.folder / f"{self._document}-{self._version}"
        try:
            await self._fetch(path)
            extracted = await self._extract(path)
        finally:
            path.unlink(missing_ok=True)
        if self._attach is not None:
            await self._attach(extracted)
        return extracted

    async def _fetch(self, path: Path) -> None:
        name = self._work.object
        if name is None or not belongs_to(name, self._tenant):
            raise Unreadable("broken", FILE_GONE)
        await self._runtime.storage.to_file(name, path)

    async def _extract(self, path: Path) -> Extracted:
        settings = self._runtime.settings
        limits = ReadLimits(
            bytes=settings.file_bytes,
            pages=settings.pages,
            inflated=settings.inflated_bytes,
            characters=settings.characters,
            nested=max(0, ReadLimits().nested - self._work.depth),
        )
        reading = asyncio.ensure_future(
            asyncio.to_thread(
                extract, path, self._work.path, limits=limits, media_type=self._work.media_type
            )
        )
        try:
            return await asyncio.shield(reading)
        except asyncio.CancelledError:
            # A thread cannot be stopped. If it does not end in time, the child process is killed.
            await asyncio.wait([reading])
            raise

    async def _add_to(self, edition: Edition, extracted: Extracted, *, completes: bool) -> Ingested:
        pieces = split(extracted, edition.recipe.chunking)
        hashes = self._hashes(pieces)
        missing = await self._find_missing(edition, hashes)
        embedded = len(missing)
        for _ in range(MAX_PUBLISH_ATTEMPTS):
            vectors = await self._embed(edition, pieces, hashes, missing)
            ingested = Ingested(len(pieces), embedded)
            facts = {**self._facts(extracted), "embedded": embedded}
            missing = await self._publish(
                edition, pieces, hashes, vectors, facts, ingested if completes else None
            )
            if not missing:
                return ingested
            embedded += len(missing)
        raise RuntimeError(
            "Other jobs removed vectors of shared texts again and again. Retry the job."
        )

    def _facts(self, extracted: Extracted) -> dict[str, Any]:
        return {
            "title": self._title(extracted),
            "kind": extracted.kind,
            "pages": max((each.page or 0 for each in extracted.sections), default=0) or None,
        }

    def _title(self, extracted: Extracted) -> str | None:
        """Return the title of the document. The title of an attachment also names its mail."""
        if self._work.attached_to is None:
            return extracted.title
        title = extracted.title or PurePosixPath(self._work.path).name
        return f"{title} (attached to {self._work.attached_to})"

    def _hashes(self, pieces: Sequence[Piece]) -> list[bytes]:
        if not pieces:
            raise Unreadable("no_text", "There is no text in it.")
        return [each.hash for each in pieces]

    async def _find_missing(self, edition: Edition, hashes: Sequence[bytes]) -> set[bytes]:
        async with self._runtime.tables.single_statement() as on:
            missing, active = await self._runtime.publishing.check_missing(
                on, self._tenant, edition.id, hashes
            )
        # Do not pay for a tenant that was switched off meanwhile.
        if missing and not active:
            raise Superseded
        return missing

    async def _embed(
        self,
        edition: Edition,
        pieces: Sequence[Piece],
        hashes: Sequence[bytes],
        missing: set[bytes],
    ) -> dict[bytes, Any]:
        """Embed the missing texts, and return the vectors of the last call.

        The vectors of all earlier calls are stored at once.
        """
        embedder = self._runtime.embedder(edition.recipe.embedding)
        texts = {
            key: piece.embedded for key, piece in zip(hashes, pieces, strict=True) if key in missing
        }
        keys, vectors = list(texts), dict[bytes, Any]()
        for start in range(0, len(keys), embedder.max_texts):
            if vectors:
                await self._keep_vectors(edition, vectors)
            call = keys[start : start + embedder.max_texts]
            answer = await embedder.embed([texts[key] for key in call])
            vectors = dict(zip(call, answer, strict=True))
        return vectors

    def _published_version(self) -> dict[str, Any]:
        """For a rebuild, return the version that must still be published; otherwise, {}."""
        is_rebuilt = not any(each.live for each in self._work.editions)
        return {"published": self._work.published} if is_rebuilt else {}

    def _quotas(self) -> dict[str, int]:
        """Return the quotas that apply if the tenant has none of its own."""
        settings = self._runtime.settings
        return {"chunks": settings.quota_chunks, "tokens": settings.quota_tokens}

    async def _keep_vectors(self, edition: Edition, vectors: Mapping[bytes, Any]) -> None:
        async with self._runtime.tables.transaction(self._tenant) as on:
            await self._runtime.publishing.keep_vectors(on, self._tenant, edition.embedder, vectors)

    async def _publish(
        self,
        edition: Edition,
        pieces: Sequence[Piece],
        hashes: Sequence[bytes],
        vectors: Mapping[bytes, Any],
        facts: Mapping[str, Any],
        result: Ingested | None,
    ) -> set[bytes]:
        """Publish the document in an edition.

        If `result` is given, complete the job in the same transaction. Return the hashes of the
        texts whose vectors were removed meanwhile. If there are any, nothing is published.
        """
        try:
            async with self._runtime.tables.transaction(self._tenant) as on:
                published = await self._runtime.publishing.publish(
                    on,
                    self._tenant,
                    self._document,
                    self._version,
                    edition.id,
                    pieces,
                    hashes,
                    vectors,
                    {**facts, **self._published_version(), "quotas": self._quotas()},
                )
                if published.answer == "stale":
                    raise Superseded
                if published.answer == "retired":
                    raise EditionRetired
                if published.answer == "quota":
                    raise OverQuota(len(pieces), sum(each.tokens for each in pieces))
                if published.answer == "missing":
                    raise _TextsRemoved(set(published.missing or ()))
                if result is not None:
                    await self._ctx.complete(on, result)
        except _TextsRemoved as removed:
            if vectors:
                await self._keep_vectors(edition, vectors)
            return removed.hashes
        return set()


class _TextsRemoved(Exception):
    """Rolls the transaction back, since the vectors of these texts were removed meanwhile."""

    def __init__(self, hashes: set[bytes]) -> None:
        self.hashes = hashes


USER_AGENT: Final = "Penstock/1.0 (knowledge)"


class PageFetch:
    """Fetches a page and stores it, so that the job reads it like any other file."""

    def __init__(
        self, ctx: Context, runtime: KnowledgeRuntime, document: int, version: int
    ) -> None:
        self._ctx = ctx
        self._runtime = runtime
        self._tenant = ctx.job.tenant
        self._document = document
        self._version = version

    async def run(self, work: Work) -> Work | Ingested:
        """Fetch the page, and return the work with the fetched file.

        If the page has not changed, complete the job and return its result instead.
        """
        assert work.url is not None
        limits = FetchLimits(bytes=min(FetchLimits().bytes, self._runtime.settings.file_bytes))
        page = await fetch(
            work.url,
            self._runtime.folder,
            limits,
            allow=Allowed.of(FETCH_PREFIX),
            user_agent=USER_AGENT,
        )
        try:
            await self._store(page)
        finally:
            page.path.unlink(missing_ok=True)
        return await self._record(work, page)

    async def _store(self, page: FetchedPage) -> None:
        """Store the file, and hold it so that no sweep removes it until a document refers to it."""
        file = (page.digest, object_name(self._tenant, page.digest), page.bytes)
        async with self._runtime.tables.transaction(self._tenant) as on:
            await self._ctx.fence(on)
            await self._runtime.objects.hold(on, self._tenant, [file])
        await self._runtime.storage.put(self._tenant, page.path, page.digest)

    async def _record(self, work: Work, page: FetchedPage) -> Work | Ingested:
        async with self._runtime.tables.transaction(self._tenant) as on:
            await self._ctx.fence(on)
            is_same = await self._runtime.documents.record_fetch(
                on,
                self._tenant,
                self._document,
                self._version,
                page.digest,
                page.bytes,
                page.content_type,
            )
            await self._runtime.objects.release(on, self._tenant, [page.digest])
            if is_same is None:
                raise Superseded
            # A building edition does not have the document yet, even if the page is the same.
            if is_same and all(each.live for each in work.editions):
                chunks = await self._runtime.documents.confirm_unchanged(
                    on, self._tenant, self._document, self._version
                )
                ingested = Ingested(chunks, 0)
                await self._ctx.complete(on, ingested)
                return ingested
        return replace(
            work,
            digest=page.digest,
            object=object_name(self._tenant, page.digest),
            size=page.bytes,
            media_type=page.content_type,
        )
