"""Writes outcomes to the database, many at once.

While one flush is under way the next outcomes gather, so a quiet worker settles at once and a
busy one in large batches. Nothing is dropped: a settle whose answer was lost is sent again (the
token makes the repeat harmless), and a locked row is asked for again apart from the others.

An error of a settle is one of three. The database is out of reach or takes no writes: the batch
waits until it does. The error passes, such as a deadlock: the batch is tried again. The error
lasts: halving finds the rows that are refused. If others are written, a refused row is failed with
the refusal as its error, or counts as a loss if not even that can be written. If nothing can be
written, everything is kept and tried again, and the worker claims nothing until it works.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple
from uuid import UUID

from penstock.insights import Unwritten
from penstock.lifecycle import BACKOFF_FIRST, BACKOFF_LAST, Health
from penstock.outcome import DONE, RELEASED, Transition
from penstock.store import Answer, Pool, Settlement, Store, failures
from penstock.wording import counted

logger = logging.getLogger("penstock.settle")

BATCH = 1000
BUSY_AGAIN = 0.05
PASSING_TRIES = 5
# If the first few refused rows are alone, without any that was written, the others are not tried.
REFUSED_TO_STOP_AT = 3
# The first pause before kept outcomes are tried again, as a part of the longest.
KEPT_RETRY_FIRST = 1 / 32
MESSAGE_LIMIT = 300

OnSettled = Callable[[Sequence[Settlement]], None]
OnRefused = Callable[[Settlement, Answer], None]


class Refused(NamedTuple):
    """A row that could not be written in any form."""

    settlement: Settlement
    error: Exception
    # Another row had been written just before, so the refusal concerns this one alone.
    is_alone: bool

    @property
    def may_be_alone(self) -> bool:
        return not self.is_alone and failures.is_of_row(self.error)


class Completer:
    """Outcomes on their way to the database."""

    def __init__(
        self,
        pool: Pool,
        store: Store,
        health: Health,
        *,
        partitions_ahead: int,
        retry_most: float,
        before: Callable[[], Awaitable[None]],
        settled: OnSettled,
        refused: OnRefused,
        flushed: Callable[[], None],
        unwritten_changed: Callable[[], None],
    ) -> None:
        self._pool = pool
        self._store = store
        self._health = health
        self._partitions_ahead = partitions_ahead
        self._retry_most = retry_most
        self._before = before
        self._settled = settled
        self._refused = refused
        self._flushed = flushed
        self._unwritten_changed = unwritten_changed
        self._waiting: list[Settlement] = []
        self._busy: list[Settlement] = []
        self._kept: list[Settlement] = []
        self._in_flight: list[Settlement] = []
        self._flushing: asyncio.Task[None] | None = None
        self._busy_timer: asyncio.TimerHandle | None = None
        self._kept_timer: asyncio.TimerHandle | None = None
        self._kept_pause = KEPT_RETRY_FIRST * retry_most
        # Of the flush under way: rows that were refused, rows that were not tried after these, and
        # whether any row was written.
        self._refused_rows: list[Refused] = []
        self._untried: list[Settlement] = []
        self._has_written = False
        self._unwritten_since = 0.0
        self._closing = False
        self._closed = False
        self._empty = asyncio.Event()
        self._empty.set()
        self.unwritten: Unwritten | None = None
        # The database has refused everything for long: one more job may show whether it still does.
        self.wants_probe = False

    @property
    def unsettled(self) -> int:
        return len(self._waiting) + len(self._busy) + len(self._kept) + len(self._in_flight)

    def jobs(self) -> list[int]:
        """The jobs whose outcomes are not written yet."""
        return [one.id for one in self._all()]

    def _all(self) -> list[Settlement]:
        return [*self._waiting, *self._busy, *self._kept, *self._in_flight]

    def submit(self, settlement: Settlement) -> None:
        """Hand over an outcome; it is written as soon as the flush before it is done."""
        if self._closed:
            logger.warning("Job %d ended after its worker left; it may run again.", settlement.id)
            return
        self.wants_probe = False
        self._waiting.append(settlement)
        self._flush_soon()

    def _flush_soon(self) -> None:
        if self._flushing is None:
            self._empty.clear()
            self._flushing = asyncio.create_task(self._flush(), name="penstock settle")

    async def drained(self) -> None:
        """Wait until everything handed over is settled or answered."""
        await self._empty.wait()

    async def close(self, timeout: float) -> None:
        """Write what is left, for as long as that may take, but once more at most what is kept."""
        self._closing = True
        self._retry_kept()
        try:
            async with asyncio.timeout(timeout):
                await self.drained()
        except TimeoutError:
            pass
        self._closed = True
        for timer in (self._busy_timer, self._kept_timer):
            if timer is not None:
                timer.cancel()
        if self._flushing is not None:
            self._flushing.cancel()
            await asyncio.gather(self._flushing, return_exceptions=True)

    async def give_up(self) -> None:
        """After the close: jobs whose outcomes could not be written have run, and count a loss."""
        rest = self._all()
        if not rest:
            return
        logger.error(
            "Outcomes that could not be written: %d. Their jobs will be run again, with a loss "
            "counted for those that had begun.",
            len(rest),
        )
        begun = [one for one in rest if one.source is not None and one.transition is not RELEASED]
        if begun:
            why = "The worker stopped." if self.unwritten is None else self.unwritten.message
            await self._store.lose_unwritten(self._pool, begun, why)

    async def _flush(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
                self._in_flight = batch
                await self._before()
                await self._settle(batch)
                await self._end_of_flush()
                self._in_flight = []
                self._flushed()
        finally:
            self._flushing = None
            if not self.unsettled or (self._closing and self.unsettled == len(self._kept)):
                self._empty.set()

    async def _settle(self, batch: list[Settlement]) -> None:
        """Settle a batch, whatever it takes: wait for the database, halve around a bad row."""
        backoff, tries = BACKOFF_FIRST, 0
        while True:
            if len(self._refused_rows) >= REFUSED_TO_STOP_AT and not self._has_written:
                self._untried += batch
                return
            try:
                batch = await self._checked(batch)
                unsettled = await self._store.settle(self._pool, batch) if batch else []
            except Exception as error:
                failures.raise_if_cancelled(error)
                tries += 1
                trouble = await self._heeded(error)
                if not self._may_wait(trouble, tries):
                    await self._halve(batch, trouble)
                    return
                is_unavailable = failures.is_unavailable(error)
                await (self._health.pause(backoff) if is_unavailable else asyncio.sleep(backoff))
                backoff = min(backoff * 2, BACKOFF_LAST)
                continue
            self._health.back("settle")
            self._has_written |= len(unsettled) < len(batch)
            self._tell(batch, unsettled)
            return

    async def _heeded(self, error: Exception) -> Exception:
        """Do what helps against an error; the error that is left to be reckoned with."""
        if failures.is_unavailable(error):
            self._health.gone("settle", error)
            await self._health.reconnect(error)
        elif failures.is_partition_missing(error):
            try:
                await self._store.ensure_partitions(self._pool, self._partitions_ahead)
            except Exception as why:
                failures.raise_if_cancelled(why)
                return why
        return error

    @staticmethod
    def _may_wait(trouble: Exception, tries: int) -> bool:
        """Whether to try the same batch again."""
        if failures.is_unavailable(trouble) and not failures.is_out_of_memory(trouble):
            return True
        may_pass = failures.is_passing(trouble) or failures.is_partition_missing(trouble)
        return may_pass and tries < PASSING_TRIES

    async def _checked(self, batch: list[Settlement]) -> list[Settlement]:
        """What is left to write: not those that their handler's own transaction has completed."""
        checks = [one for one in batch if one.is_check]
        if not checks:
            return batch
        completed = await self._store.completed(self._pool, checks)
        done = [one._replace(transition=DONE) for one in checks if one.id in completed]
        self._tell(done, ())
        return [one for one in batch if not (one.is_check and one.id in completed)]

    async def _halve(self, batch: list[Settlement], error: Exception) -> None:
        if len(batch) > 1:
            middle = len(batch) // 2
            await self._settle(batch[:middle])
            await self._settle(batch[middle:])
        elif failures.is_passing(error):
            self._put_off(batch[0])
        elif failures.is_of_row(error) and (self.unwritten is None or self._has_written):
            await self._fail(batch[0], error)
        else:
            # While nothing is written, another form of the row may only come at the moment when
            # all forms are written again, and then a success would be a failure.
            self._refused_rows.append(Refused(batch[0], error, False))

    async def _fail(self, bad: Settlement, error: Exception) -> None:
        """A row that the database refuses in this form is failed with the refusal as its error."""
        told = {"kind": "failure", "type": type(error).__name__, "message": repr(str(error))}
        refusal = bad._replace(
            transition=Transition("failed", "unsettleable", error=told), result=None
        )
        try:
            unsettled = await self._store.settle(self._pool, [refusal])
        except Exception as again:
            failures.raise_if_cancelled(again)
            if failures.is_lost(again) or failures.is_passing(again):
                self._put_off(bad)
            else:
                is_alone = self._has_written and failures.is_of_row(again)
                self._refused_rows.append(Refused(bad, again, is_alone))
            return
        logger.error("The outcome of job %d could not be written, it is failed: %s", bad.id, error)
        self._has_written |= not unsettled
        self._tell([refusal], unsettled)

    # What is refused

    async def _end_of_flush(self) -> None:
        """Tell rows that are refused alone from those that wait until the database writes again."""
        refused, self._refused_rows = self._refused_rows, []
        untried, self._untried = self._untried, []
        has_written, self._has_written = self._has_written, False
        refused = [one for one in refused if not one.is_alone or not await self._lose(one)]
        again = [one for one in refused if has_written and one.may_be_alone]
        kept = [one for one in refused if one not in again]
        if again or (self._kept and has_written and not kept):
            # Others are written: what is refused once more now is refused alone.
            self._has_written = True
            self._waiting[:0] = [one.settlement for one in again]
            self._retry_kept()
        if kept:
            # First those that were not tried: one of them may show that the database writes.
            self._keep([*untried, *(one.settlement for one in kept)], kept[0].error)
        elif not self._kept and not again:
            self._over()

    async def _lose(self, refused: Refused) -> bool:
        """Take back a job whose outcome alone is refused: it has run, so this counts as a loss."""
        bad, error, _ = refused
        try:
            lost = await self._store.lose_unwritten(self._pool, [bad], str(error))
        except Exception as why:
            failures.raise_if_cancelled(why)
            logger.info("The job %d could not be taken back: %s", bad.id, why)
            return False
        if lost:
            logger.error("The outcome of job %d is refused, it counts as lost: %s", bad.id, error)
        return bool(lost)

    def _keep(self, settlements: list[Settlement], error: Exception) -> None:
        self._kept += settlements
        if self.unwritten is None:
            self._unwritten_since = time.monotonic()
            logger.error(
                "The outcomes of %s cannot be written: %s This worker keeps them, tries again and "
                "claims nothing until it works.",
                counted(len(self._kept), "job"),
                failures.with_hint(error),
            )
        message = failures.message(error)[:MESSAGE_LIMIT]
        self.unwritten = Unwritten(len(self._kept), type(error).__name__, message)
        self._unwritten_changed()
        if self._closing:
            return
        self.wants_probe = failures.is_of_row(error) and self._kept_pause >= self._retry_most
        if self._kept_timer is None:
            loop = asyncio.get_running_loop()
            self._kept_timer = loop.call_later(self._kept_pause, self._retry_kept)
            self._kept_pause = min(2 * self._kept_pause, self._retry_most)

    def _retry_kept(self) -> None:
        if self._kept_timer is not None:
            self._kept_timer.cancel()
            self._kept_timer = None
        kept, self._kept = self._kept, []
        if kept:
            self._waiting[:0] = kept
            self._flush_soon()

    def _over(self) -> None:
        self._kept_pause = KEPT_RETRY_FIRST * self._retry_most
        self.wants_probe = False
        if self.unwritten is not None:
            self.unwritten = None
            self._unwritten_changed()
            seconds = time.monotonic() - self._unwritten_since
            logger.warning("Outcomes are written again after %.1f s.", seconds)

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
