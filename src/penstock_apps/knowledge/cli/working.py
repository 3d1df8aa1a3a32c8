"""A worker for as long as a command takes, and how far it is."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence

from penstock import Penstock, Worker
from penstock_apps.knowledge import Knowledge
from penstock_apps.knowledge.cli.screen import Screen
from penstock_apps.knowledge.cli.stalling import STILL, Stalling
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.pipeline.indexing import MAKING
from penstock_apps.knowledge.store.bases import Base

LOOK = 0.2
# What becomes of what is half done, when a command ends before its time.
GOES_ON = "What has come in stays; the same command goes on with the rest."
INTERRUPTED = f"Interrupted. {GOES_ON}"
# An index that nobody has begun for so long is not waited for.
NOT_BEGUN = 10.0
LONGEST = 1800.0


def worker_for(app: Penstock, knowledge: Knowledge, children: int | None) -> Worker:
    """A worker with so many child processes; if nobody says, two a processor and three at least."""
    number = children or max(3, 2 * (os.cpu_count() or 1))
    return app.worker(knowledge.queues(number), children=number)


async def until_ended(
    library: Library,
    sources: Sequence[int],
    total: int,
    screen: Screen,
    *,
    still: float = STILL,
) -> None:
    """Wait until all that comes into some sources has ended, whichever batch it is in.

    Where nothing comes in for `still` seconds, people are told why.
    """
    stalling = Stalling(library, sources, screen, still)
    while True:
        counts = [await library.progress(source=each) for each in sources]
        left = sum(each.pending + each.processing for each in counts)
        screen.working(max(0, total - left), total, sum(each.failed for each in counts))
        if not left:
            return
        await stalling.look(left)
        await asyncio.sleep(LOOK)


async def until_indexed(library: Library, base: Base, screen: Screen) -> None:
    """Wait until a base that has grown large has its index; not for one that nobody begins."""
    job = await library.index(base)
    patience, longest = time.monotonic() + NOT_BEGUN, time.monotonic() + LONGEST
    while job is not None and time.monotonic() < patience:
        screen.indexing()
        status = (await library.runtime.app.states([job])).get(job)
        if status is None or status.is_final:
            return
        if status.message == MAKING and time.monotonic() < longest:
            patience = time.monotonic() + NOT_BEGUN
        await asyncio.sleep(LOOK)
