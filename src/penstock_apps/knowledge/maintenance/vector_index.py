"""An edition that has grown large gets an index; a small one is quicker without."""

from __future__ import annotations

import logging
import random
from datetime import timedelta
from typing import Any

from penstock import Context, Enqueued, Snooze, Unique, task
from penstock_apps.knowledge.maintenance.delete import MAINTENANCE_QUEUE
from penstock_apps.knowledge.runtime import KnowledgeRuntime
from penstock_apps.knowledge.store.tables import Connection

logger = logging.getLogger(__name__)

# Whoever writes or plans looks at all of them: a fiftieth of a millisecond for ten.
MAX_INDEXES = 100
# Of memory for a chunk, beside two bytes a dimension; and for those who build it together.
LINK_BYTES_PER_CHUNK = 600
SHARED_BUILD_BYTES = 8 * 1024 * 1024
MIN_BUILD_BYTES = 64 * 1024 * 1024
# While another is made.
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
    """Make the index of an edition, if it is large and has none."""
    runtime = ctx.resource(KnowledgeRuntime)
    if not await is_due(runtime, edition):
        return "not wanted"
    async with runtime.indexes.exclusive_builder() as builder:
        if builder is not None:
            found = await runtime.indexes.find(builder.on, edition)
            if found is not None and found.is_complete:
                return "there"
            # One that broke off goes first, and what is made anew comes with the next try.
            if found is not None:
                await builder.drop(edition)
            else:
                ctx.progress(0, message=BUILD_MESSAGE)
                if await builder.make(edition, await _build_bytes(runtime, builder.on, edition)):
                    return "made"
    return Snooze(RETRY_WHILE_LOCKED_S * (1 + random.random()), "another index is made")


async def _build_bytes(runtime: KnowledgeRuntime, on: Connection, edition: int) -> int:
    """So many bytes hold all of it while it is built."""
    most = runtime.settings.index_bytes
    dimensions = await runtime.indexes.get_dimensions(on, edition)
    chunks = await runtime.indexes.count_chunks(on, edition, most // LINK_BYTES_PER_CHUNK)
    return max(
        MIN_BUILD_BYTES,
        min(SHARED_BUILD_BYTES + chunks * (2 * dimensions + LINK_BYTES_PER_CHUNK), most),
    )


async def is_due(runtime: KnowledgeRuntime, edition: int) -> bool:
    """Whether an edition is large and has no index."""
    least = runtime.settings.index_from + 1
    async with runtime.tables.transaction_of_all() as on:
        found = await runtime.indexes.all(on)
        if any(each.edition == edition and each.is_complete for each in found):
            return False
        if await runtime.indexes.count_chunks(on, edition, least) < least:
            return False
    if sum(each.is_complete for each in found) < MAX_INDEXES:
        return True
    logger.warning(
        "Edition %s gets no index: there are %s already. Its chunks are compared one by one; "
        "fewer, larger knowledge bases are quicker to search.",
        edition,
        MAX_INDEXES,
    )
    return False


async def ask_for_index(
    runtime: KnowledgeRuntime, tenant: str, edition: int
) -> Enqueued[Any] | None:
    """Have an index made if an edition needs one; the job, which may be there already."""
    if not await is_due(runtime, edition):
        return None
    request = index.options(tenant=tenant).prepare(edition)
    [job] = await runtime.app.for_tenant(tenant).enqueue_many([request])
    return job


async def maintain_indexes(runtime: KnowledgeRuntime, most: int, much: int) -> int:
    """Drop indexes that nobody needs, have those made that broke off or are missing; how many.

    Into what is loaded for hours they come when there is `much`, not only at its end.
    """
    async with runtime.tables.transaction_of_all() as on:
        found = await runtime.indexes.all(on)
        growing = await runtime.indexes.pick_editions(on, most, growing=True)
        due = await runtime.indexes.pick_editions(on, most, growing=False)
        for tenant, edition in growing:
            if await runtime.indexes.count_chunks(on, edition, much) == much:
                due.append((tenant, edition))
    number = 0
    for each in found:
        if not each.is_needed:
            number += await runtime.indexes.drop(each.edition)
        elif each.tenant is not None and not each.is_complete:
            asked = await ask_for_index(runtime, each.tenant, each.edition)
            number += 1 if asked else await runtime.indexes.drop(each.edition)
    for tenant, edition in due:
        number += await ask_for_index(runtime, tenant, edition) is not None
    return number
