"""Calls to a model that many documents share."""

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
from penstock_apps.knowledge.embed import Embedder, Embedding, Refused
from penstock_apps.knowledge.ingest.finish import describe_error
from penstock_apps.knowledge.runtime import KnowledgeRuntime
from penstock_apps.knowledge.store.drafts import DraftPart, DraftText
from penstock_apps.knowledge.store.tables import Connection

logger = logging.getLogger("penstock.knowledge")

EMBED_QUEUE = "knowledge-embed"
MODEL_LIMITS = "knowledge:*"
# Together they fill the largest call that a model API takes.
MAX_TEXTS_PER_JOB = 64
MAX_JOBS_PER_CALL = 32
# Nobody's text is to blame for these.
OUTAGES = (OSError, Retryable, DatabaseError, asyncpg.PostgresError, asyncpg.InterfaceError)


class TextsToEmbed(Struct, frozen=True):
    """Texts of a draft that a model has to embed, and the job that waits for them."""

    job: str
    part: DraftPart
    embedder: str
    embedding: Embedding


def embedded_event(job: str, edition: int) -> str:
    """The event that wakes a job up whose draft has all its vectors, or will not have them."""
    return f"knowledge:embedded:{job}:{edition}"


def budget(embedding: Embedding) -> str:
    """The budget of a provider, in tokens: closed for all by one call that comes too early."""
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
    """Embed texts of many documents and tenants; of each item, how many."""
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
        # Whoever asks sooner would only be refused as well. It is no failure.
        await ctx.close_bucket(budget(items[0].value.embedding), error.after)
        return [Snooze(error.after, str(error))] * len(items)


def _positions_at_last_attempt(items: Sequence[Item[TextsToEmbed]]) -> list[int]:
    jobs = [item.ctx.job for item in items]
    return [at for at, job in enumerate(jobs) if job.failures + 1 >= job.max_attempts]


class EmbedRound:
    """The texts of some jobs, in as few calls as the model allows; what it answers is kept at once.

    A call that the model refuses is sent in halves, until the text is found that it does not take.
    """

    def __init__(
        self, ctx: BatchContext, runtime: KnowledgeRuntime, items: Sequence[Item[TextsToEmbed]]
    ) -> None:
        self._ctx = ctx
        self._runtime = runtime
        self._shares = [item.value for item in items]
        self._tenants = [item.ctx.job.tenant for item in items]
        self._texts: dict[bytes, DraftText] = {}
        self._holders: defaultdict[bytes, set[int]] = defaultdict(set)
        self._given_up: set[int] = set()
        self._done: set[int] = set()
        self._asked = [0] * len(items)

    async def run(self) -> list[int]:
        """How many texts of each share were embedded here."""
        while True:
            await self._find()
            # Others may have had their texts embedded meanwhile.
            idle = set(range(len(self._shares))).difference(*self._holders.values())
            await self._keep({}, idle - self._done - self._given_up)
            async with self._runtime.in_flight.taken(self._keys()) as (taken, others):
                model = self._runtime.embedder(self._shares[0].embedding)
                own = {key for _, _, key in taken}.difference(key for _, _, key in others)
                for call in group_into_calls(
                    (self._texts[key] for key in self._texts if key in own), model
                ):
                    await self._ask(model, call)
            if not others:
                return self._asked
            # Another call is at the same texts: what it does not get is asked for here.
            for each in others.values():
                await each.wait()

    def _keys(self) -> list[tuple[str, str, bytes]]:
        embedder = self._shares[0].embedder
        return [
            (tenant, embedder, key)
            for key, holders in self._holders.items()
            if not holders <= self._given_up
            for tenant in sorted({self._tenants[at] for at in holders})
        ]

    async def give_up(self, shares: Collection[int], error: str) -> None:
        """Tell the documents of these shares that they will have no vectors."""
        for tenant, these in self._by_tenant(shares):
            held = [key for key, holders in self._holders.items() if not holders.isdisjoint(these)]
            async with self._runtime.tables.transaction(tenant) as on:
                await self._refuse(on, tenant, these, held, error)

    async def _find(self) -> None:
        """The texts that the model has not seen yet."""
        self._texts.clear()
        self._holders.clear()
        for tenant, own in self._by_tenant(range(len(self._shares))):
            parts = [self._shares[at].part for at in own]
            async with self._runtime.tables.transaction(tenant) as on:
                texts = await self._runtime.drafts.list_texts(on, tenant, parts)
                missing = await self._runtime.publishing.find_missing(
                    on, tenant, parts[0].edition, [each.hash for each in texts]
                )
            for text in texts:
                if text.hash in missing:
                    self._texts[text.hash] = text
                    self._holders[text.hash].add(own[text.part])

    async def _ask(self, model: Embedder, texts: Sequence[DraftText]) -> None:
        wanted = [each for each in texts if not self._holders[each.hash] <= self._given_up]
        if not wanted:
            return
        try:
            async with self._within_budget(sum(each.tokens for each in wanted)):
                vectors = await model.embed([each.embedded for each in wanted])
        except Refused as error:
            if len(wanted) == 1:
                await self._blame(wanted[0], str(error))
                return
            middle = len(wanted) // 2
            await self._ask(model, wanted[:middle])
            await self._ask(model, wanted[middle:])
            return
        for each in wanted:
            for at in self._holders[each.hash]:
                self._asked[at] += 1
        fresh = {each.hash: vector for each, vector in zip(wanted, vectors, strict=True)}
        await self._keep(fresh, set().union(*(self._holders[key] for key in fresh)))

    @asynccontextmanager
    async def _within_budget(self, tokens: int) -> AsyncIterator[None]:
        key = budget(self._shares[0].embedding)
        async with AsyncExitStack() as stack:
            with suppress(UnknownBudget):  # Nobody has to set one.
                await stack.enter_async_context(self._ctx.budget(key, units=tokens))
            yield

    async def _keep(self, fresh: Mapping[bytes, Any], shares: Iterable[int]) -> None:
        """Keep vectors, and wake up whose documents have all of theirs now."""
        for tenant, own in self._by_tenant(shares):
            parts = [self._shares[at].part for at in own]
            mine = {
                key: vector
                for key, vector in fresh.items()
                if not self._holders[key].isdisjoint(own)
            }
            async with self._runtime.tables.transaction(tenant) as on:
                if mine:
                    embedder = self._shares[own[0]].embedder
                    await self._runtime.publishing.keep_vectors(on, tenant, embedder, mine)
                # Two that finish at once must not both take the other for unfinished.
                await self._runtime.drafts.lock(on, tenant, {each.document for each in parts})
                done = await self._runtime.drafts.list_embedded(on, tenant, parts)
                await self._wake(on, tenant, [own[part] for part in done])
                self._done.update(own[part] for part in done)

    async def _blame(self, text: DraftText, error: str) -> None:
        for tenant, own in self._by_tenant(self._holders[text.hash]):
            async with self._runtime.tables.transaction(tenant) as on:
                await self._refuse(on, tenant, own, [text.hash], error)

    async def _refuse(
        self, on: Connection, tenant: str, shares: Sequence[int], hashes: list[bytes], error: str
    ) -> None:
        parts = [self._shares[at].part for at in shares]
        await self._runtime.drafts.lock(on, tenant, {each.document for each in parts})
        await self._runtime.drafts.refuse_texts(on, tenant, parts, hashes, error)
        await self._wake(on, tenant, shares)
        self._given_up.update(shares)

    async def _wake(self, on: Connection, tenant: str, shares: Iterable[int]) -> None:
        found = [self._shares[at] for at in shares]
        client = self._runtime.app.for_tenant(tenant).inside(on)
        # In the order of their names, as all who send several do.
        for name in sorted({embedded_event(each.job, each.part.edition) for each in found}):
            await client.send_event(name)

    def _by_tenant(self, shares: Iterable[int]) -> Iterator[tuple[str, list[int]]]:
        own = defaultdict(list)
        for at in sorted(shares):
            own[self._tenants[at]].append(at)
        yield from sorted(own.items())


def group_into_calls(texts: Iterable[DraftText], model: Embedder) -> Iterator[list[DraftText]]:
    """Texts in calls, each as large as the model takes it."""
    call, tokens = list[DraftText](), 0
    for text in texts:
        if call and (len(call) == model.max_texts or tokens + text.tokens > model.max_tokens):
            yield call
            call, tokens = [], 0
        call.append(text)
        tokens += text.tokens
    if call:
        yield call
