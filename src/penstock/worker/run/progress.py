"""Writes progress reports: the newest of each job, a few times a second."""

from __future__ import annotations

import asyncio
import logging

from penstock.job import storable
from penstock.lifecycle import DatabaseHealth, Service
from penstock.store import Pool, Store, errors
from penstock.worker.attempt import Attempt

logger = logging.getLogger("penstock.progress")

WRITE_INTERVAL_S = 0.25
MAX_MESSAGE_CHARS = 1000

Report = tuple[Attempt, float, float | None, str | None]


class ProgressWriter(Service):
    """Collects reports from any thread, and writes the newest of each job."""

    name = "progress"

    def __init__(self, pool: Pool, store: Store, health: DatabaseHealth) -> None:
        super().__init__(health)
        self._pool = pool
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._newest: dict[int, Report] = {}
        self._writing = asyncio.Lock()

    def report(
        self, attempt: Attempt, done: float, total: float | None, message: str | None
    ) -> None:
        """Take a report. Safe to call on the loop or in a handler's thread."""
        text = None if message is None else storable(str(message), MAX_MESSAGE_CHARS)
        report = (attempt, float(done), None if total is None else float(total), text)
        is_idle = not self._newest
        self._newest[attempt.job.id] = report
        if is_idle:
            self._loop.call_soon_threadsafe(self.wake)

    async def flush_before_settle(self) -> None:
        """Write reports before their jobs are settled.

        After that, the database would refuse them.
        """
        if not self._newest and not self._writing.locked():
            return
        try:
            await self.flush()
        except Exception as error:
            # A job's outcome matters more than its last progress.
            if not errors.is_unavailable(error):
                logger.warning(
                    "The last progress reports of jobs that have ended could not be written: %s",
                    error,
                )

    async def flush(self) -> None:
        """Write the newest report of each job."""
        async with self._writing:
            reports, self._newest = list(self._newest.values()), {}
            if reports:
                await self._write(reports)

    async def _write(self, reports: list[Report]) -> None:
        rows = [
            (attempt.job.id, attempt.job.token, done, total, message)
            for attempt, done, total, message in reports
        ]
        refused = set(await self._store.progress(self._pool, rows))
        for attempt, *_ in reports:
            # A job that was settled meanwhile refuses its report, which means nothing. A job that
            # still runs here has been taken by another worker.
            if attempt.job.id in refused and not attempt.is_settled and not attempt.completed:
                attempt.stop("lost")

    async def tick(self) -> float:
        await self.flush()
        await asyncio.sleep(WRITE_INTERVAL_S)
        return 0 if self._newest else 3600.0
