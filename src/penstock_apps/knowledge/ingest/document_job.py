"""The job that takes in one version of one document, and fetches it first if it has a URL."""

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
from penstock_apps.knowledge.extract import Limits, extract
from penstock_apps.knowledge.runtime import KnowledgeRuntime
from penstock_apps.knowledge.settings import FETCH_PREFIX
from penstock_apps.knowledge.store.bases import Edition
from penstock_apps.knowledge.store.documents import Work
from penstock_apps.knowledge.text import Extracted, Piece

# Somebody else may remove a text that we counted on; then it is embedded after all.
MAX_PUBLISH_ATTEMPTS = 5


class Ingested(Struct, frozen=True):
    """What came of it: how many pieces it has, and how many of them the model had not seen."""

    chunks: int
    embedded: int


class Superseded(Exception):
    """This version is not wanted any more."""


class EditionRetired(Exception):
    """The base has another edition by now: begin again with that one."""


class DocumentJob:
    """Fetch, extract, cut, embed what is new, publish."""

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
        """Bring it in, into every edition that its base has; the job ends with the last one."""
        extracted = await self._read()
        *others, last = self._in_order()
        for edition in others:
            await self._into(edition, extracted, ends=False)
        return await self._into(last, extracted, ends=True)

    def _in_order(self) -> list[Edition]:
        """The edition that is searched comes last: with it the job ends."""
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
        limits = Limits(
            bytes=settings.file_bytes,
            pages=settings.pages,
            inflated=settings.inflated_bytes,
            characters=settings.characters,
            nested=max(0, Limits().nested - self._work.depth),
        )
        reading = asyncio.ensure_future(
            asyncio.to_thread(
                extract, path, self._work.path, limits=limits, media_type=self._work.media_type
            )
        )
        try:
            return await asyncio.shield(reading)
        except asyncio.CancelledError:
            # A thread cannot be stopped: if it does not end in time, the child process is killed.
            await asyncio.wait([reading])
            raise

    async def _into(self, edition: Edition, extracted: Extracted, *, ends: bool) -> Ingested:
        pieces = split(extracted, edition.recipe.chunking)
        hashes = self._hashes(pieces)
        missing = await self._missing(edition, hashes)
        seen = len(missing)
        for _ in range(MAX_PUBLISH_ATTEMPTS):
            fresh = await self._embedded(edition, pieces, hashes, missing)
            brought = Ingested(len(pieces), seen)
            facts = {**self._facts(extracted), "embedded": seen}
            gone = await self._publish(
                edition, pieces, hashes, fresh, facts, brought if ends else None
            )
            if not gone:
                return brought
            missing = gone
            seen += len(gone)
        raise RuntimeError("Texts that it shares with others went away again and again.")

    def _facts(self, extracted: Extracted) -> dict[str, Any]:
        return {
            "title": self._title(extracted),
            "kind": extracted.kind,
            "pages": max((each.page or 0 for each in extracted.sections), default=0) or None,
        }

    def _title(self, extracted: Extracted) -> str | None:
        """The title of a document; that of an attachment also names its mail."""
        if self._work.attached_to is None:
            return extracted.title
        title = extracted.title or PurePosixPath(self._work.path).name
        return f"{title} (attached to {self._work.attached_to})"

    def _hashes(self, pieces: Sequence[Piece]) -> list[bytes]:
        if not pieces:
            raise Unreadable("no_text", "There is no text in it.")
        return [each.hash for each in pieces]

    async def _missing(self, edition: Edition, hashes: Sequence[bytes]) -> set[bytes]:
        async with self._runtime.tables.single_statement() as on:
            missing, active = await self._runtime.publishing.check_missing(
                on, self._tenant, edition.id, hashes
            )
        # Nothing is paid for a tenant that was switched off meanwhile.
        if missing and not active:
            raise Superseded
        return missing

    async def _embedded(
        self,
        edition: Edition,
        pieces: Sequence[Piece],
        hashes: Sequence[bytes],
        missing: set[bytes],
    ) -> dict[bytes, Any]:
        """The vectors of the texts that have none. All but the last of many are kept at once."""
        embedder = self._runtime.embedder(edition.recipe.embedding)
        texts = {
            key: piece.embedded for key, piece in zip(hashes, pieces, strict=True) if key in missing
        }
        keys, fresh = list(texts), dict[bytes, Any]()
        for start in range(0, len(keys), embedder.max_texts):
            if fresh:
                await self._keep(edition, fresh)
            some = keys[start : start + embedder.max_texts]
            vectors = await embedder.embed([texts[key] for key in some])
            fresh = dict(zip(some, vectors, strict=True))
        return fresh

    def _found(self) -> dict[str, Any]:
        """What is only rebuilt is what is found, as long as it is."""
        is_rebuilt = not any(each.live for each in self._work.editions)
        return {"published": self._work.published} if is_rebuilt else {}

    def _quotas(self) -> dict[str, int]:
        """What any tenant may have that has no quotas of its own."""
        settings = self._runtime.settings
        return {"chunks": settings.quota_chunks, "tokens": settings.quota_tokens}

    async def _keep(self, edition: Edition, fresh: Mapping[bytes, Any]) -> None:
        async with self._runtime.tables.transaction(self._tenant) as on:
            await self._runtime.publishing.keep_vectors(on, self._tenant, edition.embedder, fresh)

    async def _publish(
        self,
        edition: Edition,
        pieces: Sequence[Piece],
        hashes: Sequence[bytes],
        fresh: Mapping[bytes, Any],
        facts: Mapping[str, Any],
        result: Ingested | None,
    ) -> set[bytes]:
        """Publish, and end the job in the same transaction; the texts whose vectors went away."""
        try:
            async with self._runtime.tables.transaction(self._tenant) as on:
                done = await self._runtime.publishing.publish(
                    on,
                    self._tenant,
                    self._document,
                    self._version,
                    edition.id,
                    pieces,
                    hashes,
                    fresh,
                    {**facts, **self._found(), "quotas": self._quotas()},
                )
                if done.answer == "stale":
                    raise Superseded
                if done.answer == "retired":
                    raise EditionRetired
                if done.answer == "quota":
                    raise OverQuota(len(pieces), sum(each.tokens for each in pieces))
                if done.answer == "missing":
                    raise _TextsRemoved(set(done.missing or ()))
                if result is not None:
                    await self._ctx.complete(on, result)
        except _TextsRemoved as gone:
            if fresh:
                await self._keep(edition, fresh)
            return gone.hashes
        return set()


class _TextsRemoved(Exception):
    """Rolls the transaction back."""

    def __init__(self, hashes: set[bytes]) -> None:
        self.hashes = hashes


USER_AGENT: Final = "Penstock/1.0 (knowledge)"


class PageFetch:
    """Fetches a page and stores it, before it is read like any other file."""

    def __init__(
        self, ctx: Context, runtime: KnowledgeRuntime, document: int, version: int
    ) -> None:
        self._ctx = ctx
        self._runtime = runtime
        self._tenant = ctx.job.tenant
        self._document = document
        self._version = version

    async def run(self, work: Work) -> Work | Ingested:
        """The work with its file; or what is there already, if the page has not changed."""
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
        return await self._note(work, page)

    async def _store(self, page: FetchedPage) -> None:
        """Nobody removes the file while it has no document."""
        held = (page.digest, object_name(self._tenant, page.digest), page.bytes)
        async with self._runtime.tables.transaction(self._tenant) as on:
            await self._ctx.fence(on)
            await self._runtime.objects.hold(on, self._tenant, [held])
        await self._runtime.storage.put(self._tenant, page.path, page.digest)

    async def _note(self, work: Work, page: FetchedPage) -> Work | Ingested:
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
            # An edition that is being built does not have it yet.
            if is_same and all(each.live for each in work.editions):
                chunks = await self._runtime.documents.confirm_unchanged(
                    on, self._tenant, self._document, self._version
                )
                brought = Ingested(chunks, 0)
                await self._ctx.complete(on, brought)
                return brought
        return replace(
            work,
            digest=page.digest,
            object=object_name(self._tenant, page.digest),
            size=page.bytes,
            media_type=page.content_type,
        )
