"""The three phases of a stop: let jobs finish, cancel those that do not, leave."""

from __future__ import annotations

import asyncio
import logging

from penstock.config import Stopping
from penstock.events import Events, WorkerStopping
from penstock.store import Pool
from penstock.worker.crew import Crew

logger = logging.getLogger("penstock.worker")

LEAVE_WAIT = 10.0


class Shutdown:
    """One stop of one worker. Nothing is lost: what does not finish is given back."""

    def __init__(
        self, crew: Crew, events: Events, stopping: Stopping, hurry: asyncio.Event
    ) -> None:
        self._crew = crew
        self._events = events
        self._stopping = stopping
        self._hurry = hurry

    async def run(self, pool: Pool) -> None:
        crew = self._crew
        crew.begin_nothing()
        claims = (*crew.scanners.values(), *crew.claimers.values())
        await asyncio.gather(*(service.stop() for service in claims))
        crew.dispatcher.give_back()
        await self._phase("finish", self._stopping.finish)
        crew.dispatcher.stop_all("shutdown")
        await self._phase("cancel", self._stopping.cancel)
        await self._leave(pool)

    async def _phase(self, name: str, seconds: float) -> None:
        """Wait for the running jobs, unless somebody is in a hurry."""
        running = len(self._crew.dispatcher.running)
        if not running:
            return
        self._events.emit(WorkerStopping(name, running))
        logger.info("Stopping (jobs that run: %d): phase %s, up to %g s.", running, name, seconds)
        waits = [
            asyncio.ensure_future(self._crew.dispatcher.drained()),
            asyncio.ensure_future(self._hurry.wait()),
        ]
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        self._hurry.clear()

    async def _leave(self, pool: Pool) -> None:
        crew = self._crew
        for run in crew.dispatcher.running.values():
            logger.error("%r did not stop in time; it is given back and may run twice.", run)
        await crew.isolation.close()
        await crew.completer.close(LEAVE_WAIT)
        await self._give_up_lease()
        await crew.listener.stop()
        await crew.session.abandon()
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
