"""Progress reports on their way to the database: the newest of each job, a few times a second."""

from __future__ import annotations

import asyncio
import logging

from penstock.job import storable
from penstock.lifecycle import Health, Service
from penstock.store import Pool, Store, errors
from penstock.worker.attempt import Attempt

logger = logging.getLogger("penstock.progress")

INTERVAL = 0.25
MESSAGE_LIMIT = 1000

Told = tuple[Attempt, float, float | None, str | None]


class Progress(Service):
    """Gathers reports from any thread and writes the newest of each job."""

    name = "progress"

    def __init__(self, pool: Pool, store: Store, health: Health) -> None:
        super().__init__(health)
        self._pool = pool
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._newest: dict[int, Told] = {}
        self._writing = asyncio.Lock()

    def report(
        self, attempt: Attempt, done: float, total: float | None, message: str | None
    ) -> None:
        """Take a report. Called on the loop or from a handler's thread."""
        text = None if message is None else storable(str(message), MESSAGE_LIMIT)
        told = (attempt, float(done), None if total is None else float(total), text)
        idle = not self._newest
        self._newest[attempt.job.id] = told
        if idle:
            self._loop.call_soon_threadsafe(self.wake)

    async def last_words(self) -> None:
        """Before outcomes are written: what their handlers told must come first, or is refused."""
        if not self._newest and not self._writing.locked():
            return
        try:
            await self.flush()
        except Exception as error:
            # A job's end matters more than how far it was just before.
            if not errors.is_unavailable(error):
                logger.warning("A last report of progress was not written: %s", error)

    async def flush(self) -> None:
        """Write the newest report of each job."""
        async with self._writing:
            told, self._newest = list(self._newest.values()), {}
            if told:
                await self._write(told)

    async def _write(self, told: list[Told]) -> None:
        reports = [
            (attempt.job.id, attempt.job.token, done, total, message)
            for attempt, done, total, message in told
        ]
        refused = set(await self._store.progress(self._pool, reports))
        for attempt, *_ in told:
            # Settled meanwhile is no sign of anything; still running here means superseded.
            if attempt.job.id in refused and not attempt.is_settled and not attempt.completed:
                attempt.stop("lost")

    async def tick(self) -> float:
        await self.flush()
        await asyncio.sleep(INTERVAL)
        return 0 if self._newest else 3600.0
