"""An edition that has grown large gets an index; a small one is quicker without."""

from __future__ import annotations

import logging
import random
from datetime import timedelta
from typing import Any

from penstock import Context, Enqueued, Snooze, Unique, task
from penstock_apps.knowledge.pipeline.removing import CARE
from penstock_apps.knowledge.runtime import KnowledgeRuntime
from penstock_apps.knowledge.store.tables import Connection

logger = logging.getLogger(__name__)

# Whoever writes or plans looks at all of them: a fiftieth of a millisecond for ten.
MOST = 100
# Of memory for a chunk, beside two bytes a dimension; and for those who build it together.
LINKS = 600
SHARED = 8 * 1024 * 1024
LEAST_MEMORY = 64 * 1024 * 1024
# While another is made.
TURN = 2.0
MAKING = "making the index"


@task(
    name="knowledge.index",
    queue=CARE,
    resources=[KnowledgeRuntime],
    unique=Unique(),
    timeout=timedelta(days=1),
)
async def index(ctx: Context, edition: int) -> str | Snooze:
    """Make the index of an edition, if it is large and has none."""
    runtime = ctx.resource(KnowledgeRuntime)
    if not await is_due(runtime, edition):
        return "not wanted"
    async with runtime.indexes.turn() as maker:
        if maker is not None:
            found = await runtime.indexes.find(maker.on, edition)
            if found is not None and found.whole:
                return "there"
            # One that broke off goes first, and what is made anew comes with the next try.
            if found is not None:
                await maker.drop(edition)
            else:
                ctx.progress(0, message=MAKING)
                if await maker.make(edition, await _memory(runtime, maker.on, edition)):
                    return "made"
    return Snooze(TURN * (1 + random.random()), "another index is made")


async def _memory(runtime: KnowledgeRuntime, on: Connection, edition: int) -> int:
    """So many bytes hold all of it while it is built."""
    most = runtime.settings.index_bytes
    dimensions = await runtime.indexes.dimensions(on, edition)
    chunks = await runtime.indexes.weigh(on, edition, most // LINKS)
    return max(LEAST_MEMORY, min(SHARED + chunks * (2 * dimensions + LINKS), most))


async def is_due(runtime: KnowledgeRuntime, edition: int) -> bool:
    """Whether an edition is large and has no index."""
    least = runtime.settings.index_from + 1
    async with runtime.tables.of_all() as on:
        found = await runtime.indexes.all(on)
        if any(each.edition == edition and each.whole for each in found):
            return False
        if await runtime.indexes.weigh(on, edition, least) < least:
            return False
    if sum(each.whole for each in found) < MOST:
        return True
    logger.warning(
        "Edition %s gets no index: there are %s already. Its chunks are compared one by one; "
        "fewer, larger knowledge bases are quicker to search.",
        edition,
        MOST,
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


async def tend(runtime: KnowledgeRuntime, most: int, much: int) -> int:
    """Drop indexes that nobody needs, have those made that broke off or are missing; how many.

    Into what is loaded for hours they come when there is `much`, not only at its end.
    """
    async with runtime.tables.of_all() as on:
        found = await runtime.indexes.all(on)
        growing = await runtime.indexes.some(on, most, growing=True)
        due = await runtime.indexes.some(on, most, growing=False)
        for tenant, edition in growing:
            if await runtime.indexes.weigh(on, edition, much) == much:
                due.append((tenant, edition))
    number = 0
    for each in found:
        if not each.wanted:
            number += await runtime.indexes.drop(each.edition)
        elif each.tenant is not None and not each.whole:
            asked = await ask_for_index(runtime, each.tenant, each.edition)
            number += 1 if asked else await runtime.indexes.drop(each.edition)
    for tenant, edition in due:
        number += await ask_for_index(runtime, tenant, edition) is not None
    return number
