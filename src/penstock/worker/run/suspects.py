"""Marks suspects as begun before they begin.

A suspect is a job whose worker was lost, perhaps because of this job. If this worker is lost too,
only suspects that are marked as begun count another loss. A suspect that was fetched and has not
begun pays nothing. Fresh jobs are not marked, so they cost no extra write.

Suspects that run in this process are marked one after the other. For the first seconds of one
suspect, no other suspect is marked. So if it kills the process at once, the others pay nothing.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from penstock.lifecycle import DatabaseHealth, Service
from penstock.store import ClaimedJob, Pool, Store, errors
from penstock.wording import counted
from penstock.worker.timing import DEFAULT_TIMING, Timing

logger = logging.getLogger("penstock.worker")

IDLE_PAUSE_S = 3600.0
BUSY_PAUSE_S = 0.05
# How often a window tries to lock a row that another transaction holds, before it closes.
MAX_BUSY_TRIES = 20

ROW_LOCKED = "The job cannot be marked as begun: an open transaction has locked its row."


class MarkRefused(Exception):
    """The database refuses to mark an attempt as begun. The message says why."""


class StartWindow:
    """The period in which only one suspect may be marked and run in this process."""

    def __init__(self, seconds: float, on_end: Callable[[], None]) -> None:
        self._seconds = seconds
        self._on_end = on_end
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False
        self.job: ClaimedJob | None = None
        self.busy_tries = 0

    def begin(self) -> None:
        """Start the timer of this window.

        If the suspect runs longer, the next window opens anyway.
        """
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self.end)

    def end(self) -> None:
        """Close the window, so that the next suspect gets its own."""
        if self._timer is not None:
            self._timer.cancel()
        if not self._is_over:
            self._is_over = True
            self._on_end()


class Suspects(Service):
    """Marks waiting suspects.

    Suspects for child processes that arrive during a write share the next one.
    """

    name = "marks of suspects"

    def __init__(
        self, pool: Pool, store: Store, health: DatabaseHealth, timing: Timing = DEFAULT_TIMING
    ) -> None:
        super().__init__(health)
        self._timing = timing
        self._pool = pool
        self._store = store
        self._waiting: dict[ClaimedJob, asyncio.Future[bool]] = {}
        self._window_lock = asyncio.Lock()
        # The window of the suspect that may be marked and run in this process.
        self._window: StartWindow | None = None

    @asynccontextmanager
    async def window(self) -> AsyncIterator[StartWindow]:
        """Wait until a suspect may be marked and run in this process, and yield its window."""
        await self._window_lock.acquire()
        window = self._window = StartWindow(
            random.uniform(*self._timing.suspect_window), self._open_next_window
        )
        try:
            yield window
        finally:
            window.end()

    def _open_next_window(self) -> None:
        self._window = None
        self._window_lock.release()
        self.wake()

    async def mark_in_window(self, job: ClaimedJob, window: StartWindow) -> bool:
        """Mark the suspect whose window is open, as `mark` does."""
        window.job = job
        return await self.mark(job)

    async def mark(self, job: ClaimedJob) -> bool:
        """Mark an attempt as begun if its job is a suspect. Return False if it has lost the job.

        This waits for the database as long as necessary. It raises MarkRefused if the database
        refuses for good, for example because of a trigger or a missing privilege.
        """
        if not job.is_suspect:
            return True
        marked: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting[job] = marked
        self.wake()
        try:
            return await marked
        finally:
            del self._waiting[job]

    async def tick(self) -> float:
        window = self._window
        in_process = None if window is None else window.job
        waiting = [job for job, marked in self._waiting.items() if not marked.done()]
        if in_process is not None and in_process not in waiting:
            return IDLE_PAUSE_S  # It runs, and the end of its window wakes this service.
        is_busy = False
        if for_children := [job for job in waiting if job is not in_process]:
            is_busy = await self._write(for_children)
        # It may have been told to stop meanwhile.
        if window is not None and in_process is not None and self._pending(in_process):
            window.busy_tries += 1
            is_busy = await self._write([in_process]) or is_busy
            if window.busy_tries >= MAX_BUSY_TRIES and (marked := self._pending(in_process)):
                marked.set_exception(MarkRefused(ROW_LOCKED))
        return BUSY_PAUSE_S if is_busy else IDLE_PAUSE_S

    async def _write(self, jobs: Sequence[ClaimedJob]) -> bool:
        """Mark the jobs. If the database refuses some of them, halve the list to find these.

        Return whether some jobs are busy and must be tried again.
        """
        try:
            marked, busy = await self._store.mark_started(self._pool, jobs)
        except Exception as error:
            errors.raise_if_cancelled(error)
            if not errors.is_permanent(error):
                raise
            if len(jobs) == 1 or not errors.is_row_fault(error):
                self._refuse(jobs, error)
                return False
            middle = len(jobs) // 2
            is_busy = await self._write(jobs[:middle])
            return await self._write(jobs[middle:]) or is_busy
        for job in jobs:
            if (future := self._pending(job)) and job.token not in busy:
                future.set_result(job.token in marked)
        return bool(busy)

    def _refuse(self, jobs: Sequence[ClaimedJob], error: Exception) -> None:
        why = f"The database refuses to mark the attempt as begun: {errors.with_hint(error)}"
        logger.error(
            "%s of lost workers, such as job %d, cannot be marked as begun. They are put back, "
            "and tried again later: %s",
            counted(len(jobs), "job"),
            jobs[0].id,
            errors.with_hint(error),
        )
        for job in jobs:
            if future := self._pending(job):
                future.set_exception(MarkRefused(why))

    def _pending(self, job: ClaimedJob) -> asyncio.Future[bool] | None:
        future = self._waiting.get(job)
        return None if future is None or future.done() else future
