"""Embed the texts of many documents together, in calls to a remote model."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import asyncpg
from msgspec import Struct

from penstock import (
    Batch,
    BatchContext,
    DatabaseError,
    Item,
    NotRetryable,
    Retryable,
    Snooze,
    UnknownBudget,
    task,
)
from penstock_apps.knowledge.embed import CallRefused, Embedder, Embedding
from penstock_apps.knowledge.ingest.finish import describe_error
from penstock_apps.knowledge.runtime import KnowledgeRuntime
from penstock_apps.knowledge.store.drafts import DraftPart, DraftText
from penstock_apps.knowledge.store.tables import Connection

logger = logging.getLogger("penstock.knowledge")

EMBED_QUEUE = "knowledge-embed"
MODEL_LIMITS = "knowledge:*"
# Both together fill the largest call that model APIs accept: 2,048 texts.
MAX_TEXTS_PER_JOB = 64
MAX_JOBS_PER_CALL = 32
# No text causes these errors, so they count against all jobs of a call.
OUTAGES = (OSError, Retryable, DatabaseError, asyncpg.PostgresError, asyncpg.InterfaceError)


class TextsToEmbed(Struct, frozen=True):
    """The argument of an embed job: texts of a draft, and the job that waits for them."""

    job: str
    part: DraftPart
    embedder: str
    embedding: Embedding


def embedded_event(job: str, edition: int) -> str:
    """Return the name of the event that wakes a document job once its draft has all vectors.

    The event is also sent if a text of the draft cannot be embedded.
    """
    return f"knowledge:embedded:{job}:{edition}"


def budget(embedding: Embedding) -> str:
    """Return the name of a provider's budget of tokens. A 429 answer closes it for all jobs."""
    return f"knowledge:{embedding.provider}"


def _embedder_of(share: TextsToEmbed) -> str:
    return share.embedder


@task(
    name="knowledge.embed",
    queue=EMBED_QUEUE,
    resources=[KnowledgeRuntime],
    batch=Batch(size=MAX_JOBS_PER_CALL, key=_embedder_of, fails_all=OUTAGES),
    timeout=900,
)
async def embed(ctx: BatchContext, items: list[Item[TextsToEmbed]]) -> list[int | Snooze]:
    """Embed texts of many documents and tenants; return how many texts of each item it embedded."""
    round_ = EmbedRound(ctx, ctx.resource(KnowledgeRuntime), items)
    try:
        return [*await round_.run()]
    except NotRetryable as error:
        logger.error("The texts of %d jobs cannot be embedded: %s", len(items), error)
        await round_.give_up(range(len(items)), describe_error(error, items[0].ctx.job.id))
        return [0] * len(items)
    except Retryable as error:
        if error.after is None:
            await round_.give_up(
                _positions_at_last_attempt(items), describe_error(error, items[0].ctx.job.id)
            )
            raise
        # Earlier calls would be refused as well, so all jobs wait. This counts as no failure.
        await ctx.close_bucket(budget(items[0].value.embedding), error.after)
        return [Snooze(error.after, str(error))] * len(items)


def _positions_at_last_attempt(items: Sequence[Item[TextsToEmbed]]) -> list[int]:
    jobs = [item.ctx.job for item in items]
    return [at for at, job in enumerate(jobs) if job.failures + 1 >= job.max_attempts]


class EmbedRound:
    """Embeds the texts of some jobs in as few calls as possible, and stores each answer at once.

    It splits a call that the model refuses into halves, until it finds the text that is refused.
    """

    def __init__(
        self, ctx: BatchContext, runtime: KnowledgeRuntime, items: Sequence[Item[TextsToEmbed]]
    ) -> None:
        self._ctx = ctx
        self._runtime = runtime
        self._items = [item.value for item in items]
        self._tenants = [item.ctx.job.tenant for item in items]
        self._texts: dict[bytes, DraftText] = {}
        self._holders: defaultdict[bytes, set[int]] = defaultdict(set)
        self._given_up: set[int] = set()
        self._done: set[int] = set()
        self._embedded = [0] * len(items)

    async def run(self) -> list[int]:
        """Embed the texts of all items; return how many texts of each item this round embedded."""
        while True:
            await self._find_missing()
            # Another call may have embedded the texts of some items meanwhile.
            idle = set(range(len(self._items))).difference(*self._holders.values())
            await self._keep({}, idle - self._done - self._given_up)
            async with self._runtime.in_flight.claim(self._unfinished_keys()) as (claimed, others):
                model = self._runtime.embedder(self._items[0].embedding)
                own = {key for _, _, key in claimed}.difference(key for _, _, key in others)
                for call in group_into_calls(
                    (self._texts[key] for key in self._texts if key in own), model
                ):
                    await self._embed(model, call)
            if not others:
                return self._embedded
            # Another call is embedding the rest. This one requests what that does not get.
            for each in others.values():
                await each.wait()

    def _unfinished_keys(self) -> list[tuple[str, str, bytes]]:
        embedder = self._items[0].embedder
        return [
            (tenant, embedder, key)
            for key, holders in self._holders.items()
            if not holders <= self._given_up
            for tenant in sorted({self._tenants[at] for at in holders})
        ]

    async def give_up(self, positions: Collection[int], error: str) -> None:
        """Record that the drafts of the items at these positions will not get their vectors."""
        for tenant, these in self._by_tenant(positions):
            held = [key for key, holders in self._holders.items() if not holders.isdisjoint(these)]
            async with self._runtime.tables.transaction(tenant) as on:
                await self._refuse(on, tenant, these, held, error)

    async def _find_missing(self) -> None:
        """Find the texts that have no vectors yet, each with the items that need it."""
        self._texts.clear()
        self._holders.clear()
        for tenant, own in self._by_tenant(range(len(self._items))):
            parts = [self._items[at].part for at in own]
            async with self._runtime.tables.transaction(tenant) as on:
                texts = await self._runtime.drafts.list_texts(on, tenant, parts)
                missing = await self._runtime.publishing.find_missing(
                    on, tenant, parts[0].edition, [each.hash for each in texts]
                )
            for text in texts:
                if text.hash in missing:
                    self._texts[text.hash] = text
                    self._holders[text.hash].add(own[text.part])

    async def _embed(self, model: Embedder, texts: Sequence[DraftText]) -> None:
        texts = [each for each in texts if not self._holders[each.hash] <= self._given_up]
        if not texts:
            return
        try:
            async with self._within_budget(sum(each.tokens for each in texts)):
                vectors = await model.embed([each.embedded for each in texts])
        except CallRefused as error:
            if len(texts) == 1:
                await self._refuse_text(texts[0], str(error))
                return
            middle = len(texts) // 2
            await self._embed(model, texts[:middle])
            await self._embed(model, texts[middle:])
            return
        for each in texts:
            for at in self._holders[each.hash]:
                self._embedded[at] += 1
        fresh = {each.hash: vector for each, vector in zip(texts, vectors, strict=True)}
        await self._keep(fresh, set().union(*(self._holders[key] for key in fresh)))

    @asynccontextmanager
    async def _within_budget(self, tokens: int) -> AsyncIterator[None]:
        key = budget(self._items[0].embedding)
        async with AsyncExitStack() as stack:
            with suppress(UnknownBudget):  # A budget is optional.
                await stack.enter_async_context(self._ctx.budget(key, units=tokens))
            yield

    async def _keep(self, fresh: Mapping[bytes, Any], positions: Iterable[int]) -> None:
        """Store vectors, and wake the document jobs whose drafts now have all of their vectors."""
        for tenant, own in self._by_tenant(positions):
            parts = [self._items[at].part for at in own]
            mine = {
                key: vector
                for key, vector in fresh.items()
                if not self._holders[key].isdisjoint(own)
            }
            async with self._runtime.tables.transaction(tenant) as on:
                if mine:
                    embedder = self._items[own[0]].embedder
                    await self._runtime.publishing.keep_vectors(on, tenant, embedder, mine)
                # Without the lock, of two calls that finish at once, neither might see the other.
                await self._runtime.drafts.lock(on, tenant, {each.document for each in parts})
                finished = await self._runtime.drafts.list_embedded(on, tenant, parts)
                await self._wake(on, tenant, [own[part] for part in finished])
                self._done.update(own[part] for part in finished)

    async def _refuse_text(self, text: DraftText, error: str) -> None:
        for tenant, own in self._by_tenant(self._holders[text.hash]):
            async with self._runtime.tables.transaction(tenant) as on:
                await self._refuse(on, tenant, own, [text.hash], error)

    async def _refuse(
        self, on: Connection, tenant: str, positions: Sequence[int], hashes: list[bytes], error: str
    ) -> None:
        parts = [self._items[at].part for at in positions]
        await self._runtime.drafts.lock(on, tenant, {each.document for each in parts})
        await self._runtime.drafts.refuse_texts(on, tenant, parts, hashes, error)
        await self._wake(on, tenant, positions)
        self._given_up.update(positions)

    async def _wake(self, on: Connection, tenant: str, positions: Iterable[int]) -> None:
        items = [self._items[at] for at in positions]
        client = self._runtime.app.for_tenant(tenant).inside(on)
        # All senders of several events send them in order of name, so that they cannot deadlock.
        for name in sorted({embedded_event(each.job, each.part.edition) for each in items}):
            await client.send_event(name)

    def _by_tenant(self, positions: Iterable[int]) -> Iterator[tuple[str, list[int]]]:
        own = defaultdict(list)
        for at in sorted(positions):
            own[self._tenants[at]].append(at)
        yield from sorted(own.items())


def group_into_calls(texts: Iterable[DraftText], model: Embedder) -> Iterator[list[DraftText]]:
    """Group texts into calls, each as large as the model accepts."""
    call, tokens = list[DraftText](), 0
    for text in texts:
        if call and (len(call) == model.max_texts or tokens + text.tokens > model.max_tokens):
            yield call
            call, tokens = [], 0
        call.append(text)
        tokens += text.tokens
    if call:
        yield call
