"""Build and drop vector indexes. A large edition gets one; a small one is faster without."""

from __future__ import annotations

import logging
import random
from datetime import timedelta
from typing import Any

from penstock import Context, Enqueued, Snooze, Unique, task
from penstock_apps.knowledge.maintenance.delete import MAINTENANCE_QUEUE
from penstock_apps.knowledge.runtime import KnowledgeRuntime
from penstock_apps.knowledge.store.tables import Connection

logger = logging.getLogger("penstock.knowledge")

# Every write and every query plan looks at all indexes, which takes 0.02 ms for ten.
MAX_INDEXES = 100
# Memory for a build: so much per chunk besides two bytes per dimension, and so much shared.
LINK_BYTES_PER_CHUNK = 600
SHARED_BUILD_BYTES = 8 * 1024 * 1024
MIN_BUILD_BYTES = 64 * 1024 * 1024
# The delay until the next try while another index is built.
RETRY_WHILE_LOCKED_S = 2.0
BUILD_MESSAGE = "making the index"


@task(
    name="knowledge.index",
    queue=MAINTENANCE_QUEUE,
    resources=[KnowledgeRuntime],
    unique=Unique(),
    timeout=timedelta(days=1),
)
async def index(ctx: Context, edition: int) -> str | Snooze:
    """Build the index of an edition, if it is large and has none."""
    runtime = ctx.resource(KnowledgeRuntime)
    if not await is_due(runtime, edition):
        return "not wanted"
    async with runtime.indexes.exclusive_builder() as builder:
        if builder is not None:
            existing = await runtime.indexes.find(builder.on, edition)
            if existing is not None and existing.is_complete:
                return "there"
            # Drop an incomplete index first. The next try builds it anew.
            if existing is not None:
                await builder.drop(edition)
            else:
                ctx.progress(0, message=BUILD_MESSAGE)
                if await builder.make(edition, await _build_bytes(runtime, builder.on, edition)):
                    return "made"
    return Snooze(RETRY_WHILE_LOCKED_S * (1 + random.random()), "another index is made")


async def _build_bytes(runtime: KnowledgeRuntime, on: Connection, edition: int) -> int:
    """Return how many bytes a build may use: enough for the whole index if `index_bytes` allows."""
    max_bytes = runtime.settings.index_bytes
    dimensions = await runtime.indexes.get_dimensions(on, edition)
    chunks = await runtime.indexes.count_chunks(on, edition, max_bytes // LINK_BYTES_PER_CHUNK)
    return max(
        MIN_BUILD_BYTES,
        min(SHARED_BUILD_BYTES + chunks * (2 * dimensions + LINK_BYTES_PER_CHUNK), max_bytes),
    )


async def is_due(runtime: KnowledgeRuntime, edition: int) -> bool:
    """Return whether an edition should get an index: it is large and has no complete one.

    If there are `MAX_INDEXES` already, log a warning and return False.
    """
    min_chunks = runtime.settings.index_from + 1
    async with runtime.tables.transaction_of_all() as on:
        indexes = await runtime.indexes.all(on)
        if any(each.edition == edition and each.is_complete for each in indexes):
            return False
        if await runtime.indexes.count_chunks(on, edition, min_chunks) < min_chunks:
            return False
    if sum(each.is_complete for each in indexes) < MAX_INDEXES:
        return True
    logger.warning(
        "Edition %s gets no vector index, because there are %s already. Searches compare its "
        "chunks one by one. Fewer, larger knowledge bases are quicker to search.",
        edition,
        MAX_INDEXES,
    )
    return False


async def ask_for_index(
    runtime: KnowledgeRuntime, tenant: str, edition: int
) -> Enqueued[Any] | None:
    """Enqueue a job that builds the index of an edition, if the edition needs one.

    Return this job, or the job that was enqueued for the same index before. Return None if no index
    is needed.
    """
    if not await is_due(runtime, edition):
        return None
    request = index.options(tenant=tenant).prepare(edition)
    [job] = await runtime.app.for_tenant(tenant).enqueue_many([request])
    return job


async def maintain_indexes(runtime: KnowledgeRuntime, limit: int, growing_from: int) -> int:
    """Drop indexes that are not needed, and enqueue builds of missing or incomplete ones.

    Return how many indexes were dropped or enqueued. An edition to which documents are being added
    gets its index once it has `growing_from` chunks, before a long upload has ended.
    """
    async with runtime.tables.transaction_of_all() as on:
        indexes = await runtime.indexes.all(on)
        growing = await runtime.indexes.pick_editions(on, limit, growing=True)
        due = await runtime.indexes.pick_editions(on, limit, growing=False)
        for tenant, edition in growing:
            if await runtime.indexes.count_chunks(on, edition, growing_from) == growing_from:
                due.append((tenant, edition))
    number = 0
    for each in indexes:
        if not each.is_needed:
            number += await runtime.indexes.drop(each.edition)
        elif each.tenant is not None and not each.is_complete:
            asked = await ask_for_index(runtime, each.tenant, each.edition)
            number += 1 if asked else await runtime.indexes.drop(each.edition)
    for tenant, edition in due:
        number += await ask_for_index(runtime, tenant, edition) is not None
    return number
