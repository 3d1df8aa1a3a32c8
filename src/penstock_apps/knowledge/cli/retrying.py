"""What `penstock knowledge retry` does."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack

from penstock.cli.output import Output
from penstock.cli.where import Where
from penstock_apps.knowledge.cli.naming import Naming
from penstock_apps.knowledge.cli.opening import opened
from penstock_apps.knowledge.cli.options import Effort
from penstock_apps.knowledge.cli.screen import Screen, screen_for
from penstock_apps.knowledge.cli.summary import Summary, Trouble
from penstock_apps.knowledge.cli.working import until_ended, worker_for
from penstock_apps.knowledge.intake import Receipt
from penstock_apps.knowledge.store.documents import Document


def retry_source(
    name: str, tenant: str, base: str | None, effort: Effort, where: Where, output: Output
) -> int:
    """Bring in once more what failed in a source; how many documents failed again."""
    # What fails is told at the end, with its reason.
    logging.getLogger("penstock.worker").setLevel(logging.CRITICAL)
    summary = asyncio.run(_retried(name, tenant, base, effort, where, screen_for(output)))
    output.show(summary.as_document(), lambda: str(summary))
    return summary.failed


async def _retried(
    name: str, tenant: str, base: str | None, effort: Effort, where: Where, screen: Screen
) -> Summary:
    began = time.monotonic()
    async with opened(where, tenant) as (knowledge, library):
        naming = Naming(library)
        within = None if base is None else await naming.base(base)
        source = await naming.source(name, within)
        counts = await library.progress(source=source.id)
        if not counts.failed + counts.cancelled:
            return _summary(None, [], time.monotonic() - began)
        receipt = await library.retry(source.id)
        if effort.wait:
            async with AsyncExitStack() as stack:
                stack.enter_context(screen)
                if effort.works:
                    worker = worker_for(library.shop.app, knowledge, effort.children)
                    await stack.enter_async_context(worker)
                await until_ended(library, [source.id], receipt.total, screen)
        paths = [each.path for each in receipt.documents]
        async with library.transaction() as on:
            found = await library.shop.documents.at(on, tenant, source.id, paths)
    return _summary(receipt, found, time.monotonic() - began)


def _summary(receipt: Receipt | None, documents: Sequence[Document], seconds: float) -> Summary:
    went_in = [each for each in documents if each.state == "completed" and not each.reason]
    skipped = [each for each in documents if each.state == "completed" and each.reason]
    failed = [each for each in documents if each.state in ("failed", "cancelled")]
    return Summary(
        batch=None if receipt is None else receipt.batch,
        total=len(documents),
        completed=len(went_in),
        failed=len(failed),
        skipped=len(skipped),
        unchanged=0,
        chunks=sum(each.chunks for each in went_in),
        embedded=sum(each.embedded for each in went_in),
        seconds=round(seconds, 3),
        pending=len(documents) - len(went_in) - len(skipped) - len(failed),
        errors=tuple(
            Trouble(each.path, each.error or each.reason or each.state) for each in failed
        ),
        skips=tuple(Trouble(each.path, each.error or "") for each in skipped),
        noun="document",
    )
