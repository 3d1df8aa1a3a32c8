"""A worker for as long as a command takes, and how far it is."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

from penstock import Penstock, Worker
from penstock_apps.knowledge import Knowledge
from penstock_apps.knowledge.cli.screen import Screen
from penstock_apps.knowledge.library import Library

LOOK = 0.2


def worker_for(app: Penstock, knowledge: Knowledge, children: int | None) -> Worker:
    """A worker with so many child processes; two for each processor if nobody says."""
    number = children or 2 * (os.cpu_count() or 1)
    return app.worker(knowledge.queues(number), children=number)


async def until_ended(library: Library, sources: Sequence[int], total: int, screen: Screen) -> None:
    """Wait until all that comes into some sources has ended, whichever batch it is in."""
    while True:
        counts = [await library.progress(source=each) for each in sources]
        left = sum(each.pending + each.processing for each in counts)
        screen.working(max(0, total - left), total, sum(each.failed for each in counts))
        if not left:
            return
        await asyncio.sleep(LOOK)
