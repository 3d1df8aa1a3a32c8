"""What is done about a source that has come in badly, or is not wanted: once more, or no more."""

from __future__ import annotations

from typing import Final

from penstock_apps.knowledge.errors import NotFound
from penstock_apps.knowledge.intake import Receipt
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.store.unfinished import Unfinished

PAGE: Final = 500


async def retry_failed(library: Library, source: int) -> Receipt:
    """Bring in once more what failed of a source, and nothing else, as a batch of its own."""
    found = await library.source(source)
    async with library.transaction() as on:
        base = await library.shop.bases.find(on, library.tenant, base=found.base)
    if base is None:
        raise NotFound("source", str(source))
    unfinished, after = Unfinished(library.shop.shelves), ""
    async with library.intake(base, source) as intake:
        while True:
            async with library.transaction() as on:
                page = await unfinished.failed(on, library.tenant, source, after, PAGE)
            if page:
                await intake.add_again(page)
            if len(page) < PAGE:
                return intake.receipt
            after = page[-1].path


async def cancel_source(library: Library, source: int, reason: str) -> int:
    """End what is under way of a source; how many documents."""
    await library.source(source)
    unfinished, after, ended = Unfinished(library.shop.shelves), "", 0
    while True:
        async with library.transaction() as on:
            page = await unfinished.under_way(on, library.tenant, source, after, PAGE)
        if page:
            answers = await library.client.cancel_many(list(page.values()), reason)
            gone = {path: job for path, job in page.items() if answers.get(job) == "cancelled"}
            async with library.transaction() as on:
                await unfinished.cancel(on, library.tenant, source, gone)
            ended += len(page)
        if len(page) < PAGE:
            return ended
        *_, after = page
