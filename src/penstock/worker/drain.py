"""Working off what there is."""

from __future__ import annotations

import asyncio

from penstock.worker.crew import Crew

# How often a drain looks whether a limit has room again.
LIMIT_WAIT = 0.05


async def run_dry(crew: Crew) -> None:
    """Return once nothing is ready any more, or the quota is spent, and all is settled.

    Every round promotes what is due and looks at all queues anew, so jobs that came meanwhile are
    included.
    """
    while True:
        before = crew.quota.claimed
        promoted = await crew.maintenance.promoter.promote()
        ready = [await scanner.scan() for scanner in crew.scanners.values()]
        await _quiet(crew)
        is_moving = bool(promoted) or crew.quota.claimed > before
        if crew.quota.is_spent or not (is_moving or any(ready)):
            return
        if not is_moving:
            # All that is ready waits for a limit, which other workers or time will make room in.
            await asyncio.sleep(LIMIT_WAIT)


async def _quiet(crew: Crew) -> None:
    """Wait until nothing is being claimed, fetched, running or unsettled."""
    while True:
        for claimer in crew.claimers.values():
            await claimer.settled()
        await crew.dispatcher.drained()
        await crew.completer.drained()
        if not (crew.dispatcher.jobs() or crew.mover.jobs() or crew.completer.unsettled):
            return
        await asyncio.sleep(0)
