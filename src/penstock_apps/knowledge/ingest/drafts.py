"""A document whose texts go to the model together with those of others."""

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

# A job that ends without a word, since it was killed again and again, is looked for then.
MAX_EVENT_WAIT_S = 600.0
UNFINISHED_STATES = ("scheduled", "ready", "running", "blocked")


class NotEmbedded(KnowledgeError, NotRetryable):
    """A model will not make the vectors of a document."""

    reason = "not_embedded"


class DraftFacts(Struct, frozen=True):
    """What is kept of a document beside its pieces, and how many of these were new, by edition."""

    title: str | None
    kind: str
    pages: int | None
    fresh: dict[str, int]


class DraftJob(DocumentJob):
    """Cut it, ask for the vectors that are missing, wait without holding a slot, publish."""

    async def run(self) -> Ingested:
        self._asked = set[int]()
        facts = await self._ctx.step("draft", self._draft)
        *others, last = self._in_order()
        # All are waited for before the first is published, for with that its draft goes.
        for edition in (*others, last):
            await self._ready(edition)
        for edition in others:
            await self._finish(edition, facts, ends=False)
        return await self._finish(last, facts, ends=True)

    async def _draft(self) -> DraftFacts:
        extracted = await self._read()
        fresh = {}
        for edition in self._in_order():
            pieces = split(extracted, edition.recipe.chunking)
            fresh[str(edition.id)] = await self._write(edition, pieces)
        told = self._facts(extracted)
        return DraftFacts(told["title"], told["kind"], told["pages"], fresh)

    async def _write(self, edition: Edition, pieces: Sequence[Piece]) -> int:
        """Write a draft down and ask for what it lacks, or neither; how many texts that is."""
        hashes = self._hashes(pieces)
        async with self._runtime.tables.transaction(self._tenant) as on:
            await self._hold(on)
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
            if self._shares(edition):
                draft = Draft(self._ctx.attempt, tuple(pieces), tuple(hashes), None)
                await self._ask(on, edition, draft, missing)
        return len(missing)

    async def _finish(self, edition: Edition, facts: DraftFacts, *, ends: bool) -> Ingested:
        seen = facts.fresh.get(str(edition.id), 0)
        told = {"title": facts.title, "kind": facts.kind, "pages": facts.pages, "embedded": seen}
        for _ in range(MAX_PUBLISH_ATTEMPTS):
            draft, missing = await self._ready(edition)
            brought = Ingested(len(draft.pieces), seen)
            fresh = await self._embedded(edition, draft.pieces, draft.hashes, missing)
            result = brought if ends else None
            if not await self._publish(edition, draft.pieces, draft.hashes, fresh, told, result):
                return brought
        raise RuntimeError("Texts that it shares with others went away again and again.")

    async def _ready(self, edition: Edition) -> tuple[Draft, set[bytes]]:
        """The draft of an edition once others have seen to its vectors; what is left to do here."""
        name = embedded_event(self._ctx.job.id, edition.id)
        while True:
            draft, missing = await self._look(edition)
            if not missing or not self._shares(edition):
                return draft, missing
            await self._see_to_it(edition, draft, missing)
            try:
                await self._ctx.wait_for_event(name, MAX_EVENT_WAIT_S)
            except EventTimeout:
                continue

    async def _look(self, edition: Edition) -> tuple[Draft, set[bytes]]:
        async with self._runtime.tables.transaction(self._tenant) as on:
            draft = await self._runtime.drafts.read(
                on, self._tenant, self._document, edition.id, self._version
            )
            if draft is not None and draft.error is None:
                return draft, await self._runtime.publishing.find_missing(
                    on, self._tenant, edition.id, draft.hashes
                )
            if draft is not None:
                # A retry by hand asks anew.
                await self._ctx.fence(on)
                await self._runtime.drafts.drop(on, self._tenant, self._document, edition.id)
        if draft is not None and draft.error is not None:
            raise NotEmbedded(draft.error)
        # Published by an attempt that did not come to its end, or swept away.
        await self._draft()
        return await self._look(edition)

    async def _see_to_it(self, edition: Edition, draft: Draft, missing: Collection[bytes]) -> None:
        """Somebody has to be at work for us."""
        if edition.id in self._asked:
            self._asked.discard(edition.id)
            return
        client = self._runtime.app.for_tenant(self._tenant)
        page = await client.list(task=embed, subject=self._subject, limit=1000)
        jobs = [each for each in page.jobs if _is_for(each.args, edition, draft)]
        if failed := next((each for each in jobs if each.state == "failed"), None):
            raise NotEmbedded(describe_fault(failed.id))
        if not any(each.state in UNFINISHED_STATES for each in jobs):
            async with self._runtime.tables.transaction(self._tenant) as on:
                await self._hold(on)
                await self._ask(on, edition, draft, missing)
            self._asked.discard(edition.id)

    async def _hold(self, on: Connection) -> None:
        """This attempt owns the document until the end of the transaction, or Stale."""
        await self._ctx.fence(on)
        held = await self._runtime.drafts.lock(on, self._tenant, [self._document])
        if held.get(self._document) != self._version:
            raise Superseded

    async def _ask(
        self, on: Connection, edition: Edition, draft: Draft, missing: Collection[bytes]
    ) -> None:
        requests = [
            self._request(
                edition, DraftPart(self._document, edition.id, draft.attempt, first, last)
            )
            for first, last in self._stretches(edition, draft, missing)
        ]
        self._asked.add(edition.id)
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

    def _stretches(
        self, edition: Edition, draft: Draft, missing: Collection[bytes]
    ) -> Iterator[tuple[int, int]]:
        """From which position to which a job has to embed what is missing; each text once."""
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

    def _shares(self, edition: Edition) -> bool:
        return self._runtime.embedder(edition.recipe.embedding).shares_calls

    @property
    def _subject(self) -> str:
        return f"document:{self._document}"


def _is_for(args: dict[str, Any], edition: Edition, draft: Draft) -> bool:
    part = convert(args["item"], TextsToEmbed).part
    return part.edition == edition.id and part.attempt == draft.attempt
