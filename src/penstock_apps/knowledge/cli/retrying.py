"""What `penstock knowledge retry` does."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack

from penstock.cli.database import lost_midway
from penstock.cli.errors import NotFound
from penstock.cli.options import Where
from penstock.cli.output import Output
from penstock.cli.process import alone
from penstock_apps.knowledge.cli.meanwhile import Needed
from penstock_apps.knowledge.cli.naming import Naming, described
from penstock_apps.knowledge.cli.opening import opened
from penstock_apps.knowledge.cli.options import Effort
from penstock_apps.knowledge.cli.screen import Screen, screen_for
from penstock_apps.knowledge.cli.summary import Summary, Trouble
from penstock_apps.knowledge.cli.working import (
    GOES_ON,
    INTERRUPTED,
    until_ended,
    until_indexed,
    worker_for,
)
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.store.bases import Base
from penstock_apps.knowledge.store.documents import Held
from penstock_apps.knowledge.store.sources import Source


def retry_source(
    name: str, tenant: str, base: str | None, effort: Effort, where: Where, output: Output
) -> int:
    """Bring in once more what failed in a source; how many documents failed again."""
    # What fails is told at the end, with its reason.
    logging.getLogger("penstock.worker").setLevel(logging.CRITICAL)
    with screen_for(output) as screen:
        retried = _retried(name, tenant, base, effort, where, screen)
        summary = alone(retried, INTERRUPTED)
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
        base_of = await _base_of(library, source)
        needed = Needed(library, base_of.id, base_of.name)
        needed.add(source.id, source.key or source.name)
        async with needed.throughout():
            before = await _held(library, source)
            batch = None
            if any(each.has_failed for each in before.values()):
                batch = (await library.retry(source.id)).batch
            # What was on its way already is waited for as well: from a retry before, perhaps.
            paths = [path for path, each in before.items() if each.has_failed or each.is_under_way]
            if paths and effort.wait:
                with lost_midway(library.runtime.app.database, GOES_ON):
                    async with AsyncExitStack() as stack:
                        if effort.works:
                            worker = worker_for(library.runtime.app, knowledge, effort.children)
                            await stack.enter_async_context(worker)
                        await until_ended(library, [source.id], len(paths), screen)
                        await until_indexed(library, base_of, screen)
        now = await _held(library, source)
    awaited = {path: now[path] for path in sorted(paths) if path in now}
    return _summary(batch, awaited, time.monotonic() - began)


async def _base_of(library: Library, source: Source) -> Base:
    async with library.transaction() as on:
        found = await library.runtime.bases.find(on, library.tenant, None, source.base)
    if found is None:
        raise NotFound(f"The source {described(source)} was deleted meanwhile.")
    return found


async def _held(library: Library, source: Source) -> dict[str, Held]:
    async with library.transaction() as on:
        return await library.runtime.documents.held(on, library.tenant, source.id)


def _summary(batch: str | None, documents: Mapping[str, Held], seconds: float) -> Summary:
    went_in = [each for each in documents.values() if each.state == "completed"]
    skipped = {path: each for path, each in documents.items() if each.is_skipped}
    failed = {path: each for path, each in documents.items() if each.has_failed}
    return Summary(
        batch=batch,
        total=len(documents),
        completed=len(went_in),
        failed=len(failed),
        skipped=len(skipped),
        unchanged=0,
        chunks=sum(each.chunks for each in went_in),
        embedded=sum(each.embedded for each in went_in),
        seconds=round(seconds, 3),
        pending=sum(each.is_under_way for each in documents.values()),
        errors=tuple(Trouble(path, each.why) for path, each in failed.items()),
        skips=tuple(Trouble(path, each.why) for path, each in skipped.items()),
        noun="document",
    )
