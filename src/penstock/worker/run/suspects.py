"""Marks suspects as begun before they begin.

A suspect is a job that was taken from a lost worker, which it may have killed. Only an attempt that
is marked costs its job a loss if this worker is lost, too: what has been fetched and has not begun
pays nothing. Fresh jobs are not marked, so they pay no write.

Suspects that run in this process take turns: one is marked and runs, and no other is marked for the
first seconds. So if it kills the process at once, the others pay nothing.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from penstock.lifecycle import Health, Service
from penstock.store import ClaimedJob, Pool, Store, errors
from penstock.wording import counted
from penstock.worker.timing import DEFAULT_TIMING, Timing

logger = logging.getLogger("penstock.worker")

FOR_EVER = 3600.0
BUSY_PAUSE_S = 0.05
# How often a turn tries to lock a row that another transaction holds, before it is the next one's.
BUSY_TRIES = 20

HELD = "The job cannot be marked as begun: an open transaction has locked its row."


class MarkRefused(Exception):
    """The database refuses to mark an attempt as begun, and says why."""


class Turn:
    """The right of one suspect to be marked and to run in this process."""

    def __init__(self, seconds: float, ended: Callable[[], None]) -> None:
        self._seconds = seconds
        self._ended = ended
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False
        self.job: ClaimedJob | None = None
        self.busy_tries = 0

    def begin(self) -> None:
        """Start the suspect's time; if it runs longer, the next one gets its turn meanwhile."""
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self.end)

    def end(self) -> None:
        """End the turn, so that the next suspect gets its own."""
        if self._timer is not None:
            self._timer.cancel()
        if not self._is_over:
            self._is_over = True
            self._ended()


class Suspects(Service):
    """The suspects that wait for their mark. Those for child processes share one write if they come
    while another is under way."""

    name = "marks of suspects"

    def __init__(
        self, pool: Pool, store: Store, health: Health, timing: Timing = DEFAULT_TIMING
    ) -> None:
        super().__init__(health)
        self._timing = timing
        self._pool = pool
        self._store = store
        self._waiting: dict[ClaimedJob, asyncio.Future[bool]] = {}
        self._turns = asyncio.Lock()
        # The turn of the suspect that may be marked and run in this process.
        self._turn: Turn | None = None

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[Turn]:
        """Wait for the turn of a suspect that is to run in this process."""
        await self._turns.acquire()
        turn = self._turn = Turn(random.uniform(*self._timing.suspect_turn), self._next_turn)
        try:
            yield turn
        finally:
            turn.end()

    def _next_turn(self) -> None:
        self._turn = None
        self._turns.release()
        self.wake()

    async def mark_in_turn(self, job: ClaimedJob, turn: Turn) -> bool:
        """Mark a suspect whose turn it is to run in this process, as `mark` does."""
        turn.job = job
        return await self.mark(job)

    async def mark(self, job: ClaimedJob) -> bool:
        """Mark an attempt as begun, if it is a suspect's; False if it has lost its job.

        It waits for the database as long as that takes. Raises MarkRefused if the database refuses
        for good, as a trigger may, or where a right is missing.
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
        turn = self._turn
        here = None if turn is None else turn.job
        waiting = [one for one, marked in self._waiting.items() if not marked.done()]
        if here is not None and here not in waiting:
            return FOR_EVER  # It runs: the end of its turn wakes this.
        is_busy = False
        if elsewhere := [one for one in waiting if one is not here]:
            is_busy = await self._write(elsewhere)
        # It may have been told to stop meanwhile.
        if turn is not None and here is not None and self._unanswered(here):
            turn.busy_tries += 1
            is_busy = await self._write([here]) or is_busy
            if turn.busy_tries >= BUSY_TRIES and (marked := self._unanswered(here)):
                marked.set_exception(MarkRefused(HELD))
        return BUSY_PAUSE_S if is_busy else FOR_EVER

    async def _write(self, jobs: Sequence[ClaimedJob]) -> bool:
        """Mark what can be marked, and halve around what is refused; whether some are busy."""
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
            if (future := self._unanswered(job)) and job.token not in busy:
                future.set_result(job.token in marked)
        return bool(busy)

    def _refuse(self, jobs: Sequence[ClaimedJob], error: Exception) -> None:
        why = f"The database refuses to mark the attempt as begun: {errors.with_hint(error)}"
        logger.error(
            "%s of lost workers cannot be marked as begun, such as job %d, so they are put back and"
            " tried again later: %s",
            counted(len(jobs), "job"),
            jobs[0].id,
            errors.with_hint(error),
        )
        for job in jobs:
            if future := self._unanswered(job):
                future.set_exception(MarkRefused(why))

    def _unanswered(self, job: ClaimedJob) -> asyncio.Future[bool] | None:
        future = self._waiting.get(job)
        return None if future is None or future.done() else future
