"""Working off what there is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from penstock.local_pool import LocalPools
from penstock.store import errors
from penstock.worker.parts import Parts

T = TypeVar("T")

# How often a drain looks whether a limit has room again, and whether what is at hand has begun.
LIMIT_WAIT = 0.02
HAND_WAIT = 0.001
AGAIN = (0.05, 0.5, 2.0)
# A fold passes a batch whose row somebody holds, most often another fold: how often a drain looks
# whether it is free.
HELD_WAIT = 0.02


async def run_dry(crew: Parts, pools: LocalPools, pool_wait: float, batch_wait: float) -> None:
    """Return once nothing is ready any more, or the quota is spent, and all is settled.

    What schedules have due is fired first, once: one that fires all the time must let it end. Every
    round promotes what is due, finishes batches and looks at all queues anew, so jobs that
    came meanwhile are included. Calls in local pools are waited for: they may enqueue more. So are
    batches that somebody holds: their callbacks may be about to come. Outcomes that cannot be
    written are tried for as long as `Pace.unwritten_retry`, and then left to the stop.
    """
    upkeep = crew.maintenance
    while (await _surely(upkeep.scheduler.fire)).due:
        pass
    waits = 0
    while True:
        before = crew.quota.claimed
        promoted = await _surely(upkeep.promoter.promote)
        folded = await _surely(upkeep.folder.fold)
        ready = [await _surely(scanner.scan) for scanner in crew.scanners.values()]
        await _work_off(crew)
        if crew.quota.is_spent or crew.gives_up:
            return
        if promoted or folded.moved or any(ready) or crew.quota.claimed > before:
            waits = 0
        elif folded.passed and waits * HELD_WAIT < batch_wait:
            waits += 1
            await asyncio.sleep(HELD_WAIT)
        elif pools.calls:
            await pools.settle(pool_wait)
        else:
            return


async def _surely(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask, and again a few times if the database is away: it may be one connection of the pool."""
    cancels = errors.cancels()
    for wait in AGAIN:
        try:
            return await ask()
        except Exception as error:
            errors.raise_if_cancelled(error, cancels)
            if not errors.is_unavailable(error):
                raise
            await asyncio.sleep(wait)
    return await ask()


async def _work_off(crew: Parts) -> None:
    """Wait until nothing is known any more that may run, now or when a limit has room."""
    while True:
        await _quiet(crew)
        if crew.quota.is_spent or crew.gives_up:
            return
        if not any(state.has_claimable_cursors for state in crew.states.values()):
            return
        # What waits for a limit gets it when other workers or time have made room.
        await asyncio.sleep(LIMIT_WAIT)


async def _quiet(crew: Parts) -> None:
    """Wait until nothing is being claimed, fetched, running or unsettled."""
    while True:
        for claimer in crew.claimers.values():
            await claimer.wait_until_idle()
        await crew.dispatcher.wait_until_idle()
        await crew.settler.wait_until_written()
        is_kept = crew.settler.unsettled > 0
        is_over = not is_kept or crew.settler.is_stuck
        if is_over and not (crew.dispatcher.jobs() or crew.mover.jobs()):
            return
        await asyncio.sleep(LIMIT_WAIT if is_kept else HAND_WAIT)
