"""Writes outcomes to the database, many at once.

While one flush is under way the next outcomes gather, so a quiet worker settles at once and a
busy one in large batches. Nothing is dropped: a settle whose answer was lost is sent again (the
token makes the repeat harmless), one bad row is found by halving, a locked row is asked for again
apart from the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

from penstock.lifecycle import BACKOFF_FIRST, BACKOFF_LAST, Health
from penstock.outcome import DONE, Transition
from penstock.store import Answer, Pool, Settlement, Store, failures

logger = logging.getLogger("penstock.settle")

BATCH = 1000
BUSY_AGAIN = 0.05
PASSING_TRIES = 5
NO_PARTITION = "23514"

OnSettled = Callable[[Sequence[Settlement]], None]
OnRefused = Callable[[Settlement, Answer], None]


class Completer:
    """Outcomes on their way to the database."""

    def __init__(
        self,
        pool: Pool,
        store: Store,
        health: Health,
        *,
        partitions_ahead: int,
        before: Callable[[], Awaitable[None]],
        settled: OnSettled,
        refused: OnRefused,
        flushed: Callable[[], None],
    ) -> None:
        self._pool = pool
        self._store = store
        self._health = health
        self._partitions_ahead = partitions_ahead
        self._before = before
        self._settled = settled
        self._refused = refused
        self._flushed = flushed
        self._waiting: list[Settlement] = []
        self._busy: list[Settlement] = []
        self._in_flight: list[Settlement] = []
        self._flushing: asyncio.Task[None] | None = None
        self._busy_timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def unsettled(self) -> int:
        return len(self._waiting) + len(self._busy) + len(self._in_flight)

    def jobs(self) -> list[int]:
        """The jobs whose outcomes are not written yet."""
        return [one.id for some in (self._waiting, self._busy, self._in_flight) for one in some]

    def submit(self, settlement: Settlement) -> None:
        """Hand over an outcome; it is written as soon as the flush before it is done."""
        if self._closed:
            logger.warning("Job %d ended after its worker left; it may run again.", settlement.id)
            return
        self._waiting.append(settlement)
        if self._flushing is None:
            self._empty.clear()
            self._flushing = asyncio.create_task(self._flush(), name="penstock settle")

    async def drained(self) -> None:
        """Wait until everything handed over is settled or answered."""
        await self._empty.wait()

    async def close(self, timeout: float) -> None:
        """Write what is left, for as long as that may take."""
        try:
            async with asyncio.timeout(timeout):
                await self.drained()
        except TimeoutError:
            logger.error(
                "Outcomes that could not be written in time: %d. Their jobs will be run again.",
                self.unsettled,
            )
        self._closed = True
        if self._busy_timer is not None:
            self._busy_timer.cancel()
        if self._flushing is not None:
            self._flushing.cancel()
            await asyncio.gather(self._flushing, return_exceptions=True)

    async def _flush(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
                self._in_flight = batch
                await self._before()
                await self._settle(batch)
                self._in_flight = []
                self._flushed()
        finally:
            self._flushing = None
            if not self.unsettled:
                self._empty.set()

    async def _settle(self, batch: list[Settlement]) -> None:
        """Settle a batch, whatever it takes: wait for the database, halve around a bad row."""
        backoff, tries = BACKOFF_FIRST, 0
        while True:
            try:
                batch = await self._checked(batch)
                unsettled = await self._store.settle(self._pool, batch) if batch else []
            except Exception as error:
                is_lost = failures.is_lost(error)
                if is_lost:
                    self._health.gone("settle", error)
                elif failures.is_state(error, NO_PARTITION) and "no partition" in str(error):
                    await self._make_partitions()
                elif not failures.is_passing(error) or (tries := tries + 1) >= PASSING_TRIES:
                    await self._halve(batch, error)
                    return
                await (self._health.pause(backoff) if is_lost else asyncio.sleep(backoff))
                backoff = min(backoff * 2, BACKOFF_LAST)
                continue
            self._health.back("settle")
            self._tell(batch, unsettled)
            return

    async def _checked(self, batch: list[Settlement]) -> list[Settlement]:
        """What is left to write: not those that their handler's own transaction has completed."""
        checks = [one for one in batch if one.is_check]
        if not checks:
            return batch
        completed = await self._store.completed(self._pool, checks)
        done = [one._replace(transition=DONE) for one in checks if one.id in completed]
        self._tell(done, ())
        return [one for one in batch if not (one.is_check and one.id in completed)]

    async def _make_partitions(self) -> None:
        try:
            await self._store.ensure_partitions(self._pool, self._partitions_ahead)
        except Exception as error:
            logger.warning("The history's partitions could not be made, trying again: %s", error)

    async def _halve(self, batch: list[Settlement], error: Exception) -> None:
        if len(batch) > 1:
            middle = len(batch) // 2
            await self._settle(batch[:middle])
            await self._settle(batch[middle:])
        elif failures.is_passing(error):
            self._put_off(batch[0])
        else:
            await self._give_up(batch[0], error)

    async def _give_up(self, bad: Settlement, error: Exception) -> None:
        """A row that the database refuses in this form is failed with the refusal as its error."""
        logger.error("The outcome of job %d could not be written: %s", bad.id, error)
        told = {"kind": "failure", "type": type(error).__name__, "message": repr(str(error))}
        refusal = bad._replace(
            transition=Transition("failed", "unsettleable", error=told), result=None
        )
        try:
            unsettled = await self._store.settle(self._pool, [refusal])
        except Exception as again:
            if failures.is_lost(again) or failures.is_passing(again):
                self._put_off(refusal)
                return
            logger.error("Job %d is left to the rescue: %s", bad.id, again)
            self._refused(bad, "refused")
            return
        self._tell([refusal], unsettled)

    def _tell(
        self, batch: Sequence[Settlement], unsettled: Sequence[tuple[int, UUID, Answer]]
    ) -> None:
        if not unsettled:
            self._settled(batch)
            return
        answers = {(job, token): answer for job, token, answer in unsettled}
        settled = []
        for settlement in batch:
            answer = answers.get((settlement.id, settlement.token))
            if answer is None:
                settled.append(settlement)
            elif answer == "busy":
                self._put_off(settlement)
            else:
                self._refused(settlement, answer)
        self._settled(settled)

    def _put_off(self, settlement: Settlement) -> None:
        """Ask again in a moment; the others go on."""
        self._busy.append(settlement)
        if self._busy_timer is None:
            loop = asyncio.get_running_loop()
            self._busy_timer = loop.call_later(BUSY_AGAIN, self._ask_again)

    def _ask_again(self) -> None:
        self._busy_timer = None
        again, self._busy = self._busy, []
        for settlement in again:
            self.submit(settlement)
