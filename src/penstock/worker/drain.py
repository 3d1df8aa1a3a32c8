"""Runs jobs until none is ready any more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from penstock.local_pool import LocalPools
from penstock.store import errors
from penstock.worker.parts import Parts

T = TypeVar("T")

# How often a drain checks whether a limit has room again, and whether prefetched jobs have begun.
LIMIT_CHECK_INTERVAL_S = 0.02
PREFETCH_CHECK_INTERVAL_S = 0.001
RETRY_PAUSES_S = (0.05, 0.5, 2.0)
# A fold skips a batch whose row is locked, most often by another fold: how often a drain checks
# whether it is free.
BATCH_CHECK_INTERVAL_S = 0.02


async def run_until_drained(
    parts: Parts, pools: LocalPools, pool_wait: float, batch_wait: float
) -> None:
    """Wait until no job is ready or the quota is spent, and until all outcomes are settled.

    Due schedules fire once, at the beginning: a schedule that is always due must not keep a drain
    from ending. Each round promotes due jobs, finishes batches and scans all queues again, so the
    drain includes jobs that arrive meanwhile. It waits for calls in local pools, which may enqueue
    more jobs. It also waits for batches whose rows are locked, because their callbacks may be about
    to be enqueued. Outcomes that cannot be written are retried for `Pace.unwritten_retry` seconds,
    and then left to the stop.
    """
    upkeep = parts.maintenance
    while (await _retry_if_unavailable(upkeep.scheduler.fire)).due:
        pass
    waits = 0
    while True:
        claimed_before = parts.quota.claimed
        promoted = await _retry_if_unavailable(upkeep.promoter.promote)
        folded = await _retry_if_unavailable(upkeep.folder.fold)
        ready = [await _retry_if_unavailable(scanner.scan) for scanner in parts.scanners.values()]
        await _work_until_blocked(parts)
        if parts.quota.is_spent or parts.gives_up:
            return
        if promoted or folded.moved or any(ready) or parts.quota.claimed > claimed_before:
            waits = 0
        elif folded.passed and waits * BATCH_CHECK_INTERVAL_S < batch_wait:
            waits += 1
            await asyncio.sleep(BATCH_CHECK_INTERVAL_S)
        elif pools.calls:
            await pools.settle(pool_wait)
        else:
            return


async def _retry_if_unavailable(ask: Callable[[], Awaitable[T]]) -> T:
    """Call `ask`, and retry a few times while the database is away.

    Perhaps only one pooled connection is broken.
    """
    cancels = errors.cancels()
    for wait in RETRY_PAUSES_S:
        try:
            return await ask()
        except Exception as error:
            errors.raise_if_cancelled(error, cancels)
            if not errors.is_unavailable(error):
                raise
            await asyncio.sleep(wait)
    return await ask()


async def _work_until_blocked(parts: Parts) -> None:
    """Wait until no known job may run, not even once a limit has room."""
    while True:
        await _wait_until_quiet(parts)
        if parts.quota.is_spent or parts.gives_up:
            return
        if not any(state.has_claimable_cursors for state in parts.states.values()):
            return
        # Jobs that wait for a limit start when other workers or time have made room.
        await asyncio.sleep(LIMIT_CHECK_INTERVAL_S)


async def _wait_until_quiet(parts: Parts) -> None:
    """Wait until no job is being claimed, is prefetched, runs or is unsettled."""
    while True:
        for claimer in parts.claimers.values():
            await claimer.wait_until_idle()
        await parts.dispatcher.wait_until_idle()
        await parts.settler.wait_until_written()
        is_kept = parts.settler.unsettled > 0
        is_over = not is_kept or parts.settler.is_stuck
        if is_over and not (parts.dispatcher.jobs() or parts.mover.jobs()):
            return
        await asyncio.sleep(LIMIT_CHECK_INTERVAL_S if is_kept else PREFETCH_CHECK_INTERVAL_S)
