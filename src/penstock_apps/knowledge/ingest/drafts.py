"""The document job for remote models, which embed the texts of several documents in one call."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from msgspec import Struct, convert

from penstock import EventTimeout, NotRetryable, Request
from penstock_apps.knowledge.chunk import split
from penstock_apps.knowledge.errors import KnowledgeError
from penstock_apps.knowledge.ingest.document_job import (
    MAX_PUBLISH_ATTEMPTS,
    DocumentJob,
    Ingested,
    Superseded,
)
from penstock_apps.knowledge.ingest.embed_calls import (
    MAX_TEXTS_PER_JOB,
    TextsToEmbed,
    budget,
    embed,
    embedded_event,
)
from penstock_apps.knowledge.ingest.finish import describe_fault
from penstock_apps.knowledge.store.bases import Edition
from penstock_apps.knowledge.store.drafts import Draft, DraftPart
from penstock_apps.knowledge.store.tables import Connection
from penstock_apps.knowledge.text import Piece

# If the embed job was killed and sent no event, this job looks for it after that time.
MAX_EVENT_WAIT_S = 600.0
UNFINISHED_STATES = ("scheduled", "ready", "running", "blocked")


class NotEmbedded(KnowledgeError, NotRetryable):
    """A text of the document has no vector: the model refused it, or its embed job failed."""

    reason = "not_embedded"


class DraftFacts(Struct, frozen=True):
    """Facts about a drafted document. `fresh` is the number of texts to embed, by edition."""

    title: str | None
    kind: str
    pages: int | None
    fresh: dict[str, int]


class DraftJob(DocumentJob):
    """Writes a draft, enqueues jobs for missing vectors, waits without a slot, and publishes."""

    async def run(self) -> Ingested:
        self._requested = set[int]()
        facts = await self._ctx.step("draft", self._draft)
        *others, last = self._in_order()
        # Publishing removes the draft, so wait for all editions before the first is published.
        for edition in (*others, last):
            await self._wait_until_ready(edition)
        for edition in others:
            await self._finish(edition, facts, completes=False)
        return await self._finish(last, facts, completes=True)

    async def _draft(self) -> DraftFacts:
        extracted = await self._read()
        fresh = {}
        for edition in self._in_order():
            pieces = split(extracted, edition.recipe.chunking)
            fresh[str(edition.id)] = await self._write(edition, pieces)
        facts = self._facts(extracted)
        return DraftFacts(facts["title"], facts["kind"], facts["pages"], fresh)

    async def _write(self, edition: Edition, pieces: Sequence[Piece]) -> int:
        """Write a draft, and enqueue jobs for its missing texts in the same transaction.

        Return the number of missing texts.
        """
        hashes = self._hashes(pieces)
        async with self._runtime.tables.transaction(self._tenant) as on:
            await self._lock_document(on)
            await self._runtime.drafts.write(
                on,
                self._tenant,
                self._document,
                edition.id,
                self._version,
                self._ctx.attempt,
                pieces,
                hashes,
            )
            missing = await self._runtime.publishing.find_missing(
                on, self._tenant, edition.id, hashes
            )
            if self._shares_calls(edition):
                draft = Draft(self._ctx.attempt, tuple(pieces), tuple(hashes), None)
                await self._request_vectors(on, edition, draft, missing)
        return len(missing)

    async def _finish(self, edition: Edition, facts: DraftFacts, *, completes: bool) -> Ingested:
        embedded = facts.fresh.get(str(edition.id), 0)
        shown = {
            "title": facts.title,
            "kind": facts.kind,
            "pages": facts.pages,
            "embedded": embedded,
        }
        for _ in range(MAX_PUBLISH_ATTEMPTS):
            draft, missing = await self._wait_until_ready(edition)
            ingested = Ingested(len(draft.pieces), embedded)
            vectors = await self._embed(edition, draft.pieces, draft.hashes, missing)
            result = ingested if completes else None
            if not await self._publish(edition, draft.pieces, draft.hashes, vectors, shown, result):
                return ingested
        raise RuntimeError(
            "Other jobs removed vectors of shared texts again and again. Retry the job."
        )

    async def _wait_until_ready(self, edition: Edition) -> tuple[Draft, set[bytes]]:
        """Wait until the draft has its vectors, and return the draft.

        Also return the texts that this job has to embed itself, if the model shares no calls.
        """
        name = embedded_event(self._ctx.job.id, edition.id)
        while True:
            draft, missing = await self._read_draft(edition)
            if not missing or not self._shares_calls(edition):
                return draft, missing
            await self._ensure_requested(edition, draft, missing)
            try:
                await self._ctx.wait_for_event(name, MAX_EVENT_WAIT_S)
            except EventTimeout:
                continue

    async def _read_draft(self, edition: Edition) -> tuple[Draft, set[bytes]]:
        async with self._runtime.tables.transaction(self._tenant) as on:
            draft = await self._runtime.drafts.read(
                on, self._tenant, self._document, edition.id, self._version
            )
            if draft is not None and draft.error is None:
                return draft, await self._runtime.publishing.find_missing(
                    on, self._tenant, edition.id, draft.hashes
                )
            if draft is not None:
                # The draft failed before, so this is a retry by hand: request its vectors anew.
                await self._ctx.fence(on)
                await self._runtime.drafts.drop(on, self._tenant, self._document, edition.id)
        if draft is not None and draft.error is not None:
            raise NotEmbedded(draft.error)
        # An attempt that did not finish has published it, or a sweep has removed it.
        await self._draft()
        return await self._read_draft(edition)

    async def _ensure_requested(
        self, edition: Edition, draft: Draft, missing: Collection[bytes]
    ) -> None:
        """Make sure that jobs will embed the missing texts. Raise NotEmbedded if one failed."""
        if edition.id in self._requested:
            self._requested.discard(edition.id)
            return
        client = self._runtime.app.for_tenant(self._tenant)
        page = await client.list(task=embed, subject=self._subject, limit=1000)
        jobs = [each for each in page.jobs if _is_for(each.args, edition, draft)]
        if failed := next((each for each in jobs if each.state == "failed"), None):
            raise NotEmbedded(describe_fault(failed.id))
        if not any(each.state in UNFINISHED_STATES for each in jobs):
            async with self._runtime.tables.transaction(self._tenant) as on:
                await self._lock_document(on)
                await self._request_vectors(on, edition, draft, missing)
            self._requested.discard(edition.id)

    async def _lock_document(self, on: Connection) -> None:
        """Lock the document for this transaction; raise Superseded if its version has changed."""
        await self._ctx.fence(on)
        versions = await self._runtime.drafts.lock(on, self._tenant, [self._document])
        if versions.get(self._document) != self._version:
            raise Superseded

    async def _request_vectors(
        self, on: Connection, edition: Edition, draft: Draft, missing: Collection[bytes]
    ) -> None:
        requests = [
            self._request(
                edition, DraftPart(self._document, edition.id, draft.attempt, first, last)
            )
            for first, last in self._split_into_jobs(edition, draft, missing)
        ]
        self._requested.add(edition.id)
        if requests:
            await self._runtime.app.for_tenant(self._tenant).inside(on).enqueue_many(requests)

    def _request(self, edition: Edition, part: DraftPart) -> Request[Any]:
        embedding = edition.recipe.embedding
        return embed.options(
            tenant=self._tenant,
            subject=self._subject,
            limits=budget(embedding),
            priority=self._ctx.job.priority,
            max_attempts=self._runtime.settings.embed_attempts,
            requested_by=self._ctx.job.requested_by,
        ).prepare(TextsToEmbed(self._ctx.job.id, part, edition.embedder, embedding))

    def _split_into_jobs(
        self, edition: Edition, draft: Draft, missing: Collection[bytes]
    ) -> Iterator[tuple[int, int]]:
        """Yield the first and the last text position for each job. No text is in two jobs."""
        max_tokens = self._runtime.embedder(edition.recipe.embedding).max_tokens
        left, first, last, texts, tokens = set(missing), 0, 0, 0, 0
        for position, (piece, key) in enumerate(zip(draft.pieces, draft.hashes, strict=True), 1):
            if key not in left:
                continue
            left.discard(key)
            if texts == MAX_TEXTS_PER_JOB or (texts and tokens + piece.tokens > max_tokens):
                yield first, last
                texts, tokens = 0, 0
            first = first if texts else position
            last, texts, tokens = position, texts + 1, tokens + piece.tokens
        if texts:
            yield first, last

    def _shares_calls(self, edition: Edition) -> bool:
        return self._runtime.embedder(edition.recipe.embedding).shares_calls

    @property
    def _subject(self) -> str:
        return f"document:{self._document}"


def _is_for(args: dict[str, Any], edition: Edition, draft: Draft) -> bool:
    part = convert(args["item"], TextsToEmbed).part
    return part.edition == edition.id and part.attempt == draft.attempt
