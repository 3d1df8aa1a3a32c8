"""The phases of a stop: local pools; then let jobs finish, cancel those that do not, leave."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from penstock.config import Stopping
from penstock.events import Events, WorkerStopping
from penstock.local_pool import LocalPools
from penstock.store import Pool
from penstock.worker.crew import Crew

logger = logging.getLogger("penstock.worker")

LEAVE_WAIT = 10.0


class Shutdown:
    """One stop of one worker. Nothing is lost: what does not finish is given back."""

    def __init__(
        self,
        crew: Crew,
        pools: LocalPools,
        events: Events,
        stopping: Stopping,
        hurry: asyncio.Event,
    ) -> None:
        self._crew = crew
        self._pools = pools
        self._events = events
        self._stopping = stopping
        self._hurry = hurry

    async def run(self, pool: Pool) -> None:
        crew = self._crew
        crew.begin_nothing()
        claims = (*crew.scanners.values(), *crew.claimers.values())
        await asyncio.gather(*(service.stop() for service in claims))
        crew.dispatcher.give_back()
        await self._settle_pools()
        await self._finish_jobs("finish", self._stopping.finish)
        crew.dispatcher.stop_all("shutdown")
        await self._finish_jobs("cancel", self._stopping.cancel)
        # Once more: jobs that were about to end have submitted calls, too.
        await self._settle_pools()
        await self._leave(pool)

    async def _settle_pools(self) -> None:
        """Wait for what local pools have. They are the app's, and go on after this worker."""
        if calls := self._pools.calls:
            seconds = self._stopping.pool
            logger.info("Stopping (calls in local pools: %d): up to %g s.", calls, seconds)
            await self._phase("pool", calls, self._pools.settle(seconds), seconds)

    async def _finish_jobs(self, phase: str, seconds: float) -> None:
        if running := len(self._crew.dispatcher.running):
            logger.info(
                "Stopping (jobs that run: %d): phase %s, up to %g s.", running, phase, seconds
            )
            await self._phase(phase, running, self._crew.dispatcher.drained(), seconds)

    async def _phase(
        self, name: str, running: int, ended: Coroutine[Any, Any, None], seconds: float
    ) -> None:
        """Wait for what runs, unless somebody is in a hurry."""
        self._events.emit(WorkerStopping(name, running))
        waits = [asyncio.ensure_future(ended), asyncio.ensure_future(self._hurry.wait())]
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        self._hurry.clear()

    async def _leave(self, pool: Pool) -> None:
        crew = self._crew
        for run in crew.dispatcher.running.values():
            logger.error("%r did not stop in time; it is given back and may run twice.", run)
        await crew.isolation.close()
        await crew.completer.close(LEAVE_WAIT)
        await self._give_up_lease()
        await crew.listener.stop()
        await crew.session.abandon(LEAVE_WAIT)
        crew.executor.close()
        await crew.opened.close()
        await _close(pool)

    async def _give_up_lease(self) -> None:
        """Tell the database, if it listens; otherwise the lease runs out."""
        crew = self._crew
        idle = (crew.progress, crew.reconciler, crew.rulebook, crew.limiter, crew.mover)
        await asyncio.gather(*(service.stop() for service in idle), crew.maintenance.stop())
        try:
            async with asyncio.timeout(LEAVE_WAIT):
                await crew.progress.flush()
                await crew.limiter.flush()
                await crew.session.close()
        except Exception as error:
            logger.warning("The lease could not be given back, it will expire: %s", error)


async def _close(pool: Pool) -> None:
    try:
        async with asyncio.timeout(5):
            await pool.close()
    except Exception as error:
        logger.warning("The worker's connections were cut off: %r", error)
        pool.terminate()
