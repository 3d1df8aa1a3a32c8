"""An edition that has grown large gets an index; a small one is quicker without."""

from __future__ import annotations

import logging
from datetime import timedelta

import asyncpg

from penstock import Context, Enqueued, Snooze, Unique, task
from penstock_apps.knowledge.pipeline.removing import CARE
from penstock_apps.knowledge.workshop import Workshop

logger = logging.getLogger(__name__)

# Whoever writes or plans looks at all of them: a fiftieth of a millisecond for ten.
MOST = 100
# Of memory for a chunk, beside two bytes a dimension: its links, and the links of those above it.
LINKS = 500
LEAST_MEMORY = 64 * 1024 * 1024
# While another is made.
TURN = 2.0


@task(
    name="knowledge.index",
    queue=CARE,
    resources=[Workshop],
    unique=Unique(),
    timeout=timedelta(days=1),
)
async def index(ctx: Context, edition: int) -> str | Snooze:
    """Make the index of an edition, if it is large and has none."""
    shop = ctx.resource(Workshop)
    if not await is_due(shop, edition):
        return "not wanted"
    ctx.progress(0, message="making the index")
    return "made" if await make(shop, edition) else Snooze(TURN, "another index is made")


async def ask_for_index(shop: Workshop, tenant: str, edition: int) -> Enqueued[object] | None:
    """Have an index made if an edition needs one; the job, which may be there already."""
    if not await is_due(shop, edition):
        return None
    request = index.options(tenant=tenant).prepare(edition)
    [job] = await shop.app.for_tenant(tenant).enqueue_many([request])
    return job


async def is_due(shop: Workshop, edition: int) -> bool:
    """Whether an edition is large and has no index."""
    least = shop.settings.index_from + 1
    async with shop.shelves.of_all() as on:
        if await shop.indexes.weigh(on, edition, least) < least:
            return False
        found = await shop.indexes.all(on)
    if any(each.edition == edition and each.whole for each in found):
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


async def make(shop: Workshop, edition: int) -> bool:
    """Make the index of an edition; False while another is made."""
    async with shop.shelves.of_all() as on:
        dimensions = await shop.indexes.dimensions(on, edition)
        chunks = await shop.indexes.weigh(on, edition, shop.settings.index_bytes // LINKS)
    memory = chunks * (2 * dimensions + LINKS)
    return await shop.indexes.make(
        edition, max(LEAST_MEMORY, min(memory, shop.settings.index_bytes))
    )


async def before_search(shop: Workshop, edition: int) -> bool:
    """See to the index of an edition that is to be searched; False while another is made.

    Without one it can be searched, too: what keeps it from being made does not keep us.
    """
    try:
        return not await is_due(shop, edition) or await make(shop, edition)
    except (asyncpg.PostgresError, OSError) as error:
        logger.warning("Edition %s is searched without an index: %s", edition, error)
        return True


async def tend(shop: Workshop, most: int, much: int) -> int:
    """Drop indexes whose editions are gone, make those that broke off or are overdue; how many.

    Into what is loaded for hours they come when there is `much`, not only at its end.
    """
    async with shop.shelves.of_all() as on:
        found = await shop.indexes.all(on)
        growing = await shop.indexes.growing(on, most)
        large = [each for each in growing if await shop.indexes.weigh(on, each[1], much) == much]
    number = 0
    for gone in (each.edition for each in found if not each.wanted):
        number += await shop.indexes.drop(gone)
    broken = [(each.tenant, each.edition) for each in found if each.tenant and not each.whole]
    for tenant, edition in {*broken, *large}:
        number += await ask_for_index(shop, tenant, edition) is not None
    return number
