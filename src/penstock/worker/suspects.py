"""Marks suspects as begun before they begin.

A suspect is a job that was taken from a lost worker, which it may have killed. Only an attempt that
is marked costs its job a loss if this worker is lost, too: what has been fetched and has not begun
pays nothing. Fresh jobs are not marked, so they pay no write.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence

from penstock.lifecycle import Health, Service
from penstock.store import Attempt, Pool, Store, failures
from penstock.wording import counted

logger = logging.getLogger("penstock.worker")

FOR_EVER = 3600.0
BUSY_PAUSE_S = 0.05


class MarkRefused(Exception):
    """The database refuses to mark an attempt as begun, and says why."""


class Suspects(Service):
    """The suspects that wait for their mark. Those that come while one write is under way share
    the next."""

    name = "marks of suspects"

    def __init__(self, pool: Pool, store: Store, health: Health) -> None:
        super().__init__(health)
        self._pool = pool
        self._store = store
        self._waiting: dict[Attempt, asyncio.Future[bool]] = {}

    async def mark(self, attempt: Attempt) -> bool:
        """Mark an attempt as begun, if it is a suspect's; False if it has lost its job.

        It waits for the database as long as that takes. Raises MarkRefused if the database refuses
        for good, as a trigger may, or where a right is missing.
        """
        if not attempt.is_suspect:
            return True
        marked: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting[attempt] = marked
        self.wake()
        try:
            return await marked
        finally:
            del self._waiting[attempt]

    async def mark_all(self, attempts: Iterable[Attempt]) -> list[bool | MarkRefused]:
        """Mark attempts as begun; for each, in order, what `mark` returns or raises."""
        return await asyncio.gather(*(self._answer(attempt) for attempt in attempts))

    async def _answer(self, attempt: Attempt) -> bool | MarkRefused:
        try:
            return await self.mark(attempt)
        except MarkRefused as refusal:
            return refusal

    async def tick(self) -> float:
        attempts = [one for one, marked in self._waiting.items() if not marked.done()]
        if not attempts:
            return FOR_EVER
        return BUSY_PAUSE_S if await self._write(attempts) else FOR_EVER

    async def _write(self, attempts: Sequence[Attempt]) -> bool:
        """Mark what can be marked, and halve around what is refused; whether some are busy."""
        try:
            marked, busy = await self._store.mark_begun(self._pool, attempts)
        except Exception as error:
            failures.raise_if_cancelled(error)
            if not failures.is_lasting(error):
                raise
            if len(attempts) == 1 or not failures.is_of_row(error):
                self._refuse(attempts, error)
                return False
            middle = len(attempts) // 2
            is_busy = await self._write(attempts[:middle])
            return await self._write(attempts[middle:]) or is_busy
        for attempt in attempts:
            if (future := self._unanswered(attempt)) and attempt.token not in busy:
                future.set_result(attempt.token in marked)
        return bool(busy)

    def _refuse(self, attempts: Sequence[Attempt], error: Exception) -> None:
        why = f"The database refuses to mark the attempt as begun: {failures.with_hint(error)}"
        logger.error(
            "%s of lost workers cannot be marked as begun, such as job %d, so they are put back and"
            " tried again later: %s",
            counted(len(attempts), "job"),
            attempts[0].id,
            failures.with_hint(error),
        )
        for attempt in attempts:
            if future := self._unanswered(attempt):
                future.set_exception(MarkRefused(why))

    def _unanswered(self, attempt: Attempt) -> asyncio.Future[bool] | None:
        future = self._waiting.get(attempt)
        return None if future is None or future.done() else future
