"""Outcomes that have waited for too long to be written, whatever keeps them."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from penstock.insights import Unwritten
from penstock.lifecycle import Health
from penstock.outcome import DONE, RELEASED, Transition
from penstock.store import Answer, Pool, Settlement, Store
from penstock.store import errors as store_errors
from penstock.wording import counted

# How often the outcomes are looked at within the time after which they are overdue.
LOOKS = 8


class Overdue:
    """Looks at the unwritten outcomes at regular times, and tells of those that are overdue.

    One settle may take minutes, or fail and be tried in parts for as long, so what is told at its
    end alone comes too late.
    """

    def __init__(
        self,
        after: float,
        unwritten: Callable[[], Sequence[Settlement]],
        tell: Callable[[], None],
    ) -> None:
        self._after = after
        self._pause = after / LOOKS
        self._unwritten = unwritten
        self._tell = tell
        self._ages: dict[tuple[int, UUID], float] = {}
        self._looked = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def watch(self) -> None:
        """There is an outcome to write: look until there is none."""
        if self._timer is None:
            self._looked = time.monotonic()
            self._look_later()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def among(self, rows: Sequence[Settlement]) -> list[Settlement]:
        """Those that are overdue."""
        return [one for one in rows if self.age(one) >= self._after]

    def age(self, row: Settlement) -> float:
        """For how many seconds an outcome has been seen waiting."""
        return self._ages.get(key(row), 0.0)

    def _look_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._pause, self._look)

    def _look(self) -> None:
        now = time.monotonic()
        # While this whole process stood still, no outcome could be written.
        passed = min(now - self._looked, 2 * self._pause)
        self._looked = now
        rows = self._unwritten()
        self._ages = {key(one): self._ages.get(key(one), -passed) + passed for one in rows}
        self._timer = None
        if not rows:
            return
        self._look_later()
        if self.among(rows):
            self._tell()


def key(row: Settlement) -> tuple[int, UUID]:
    """What tells an outcome from all others: one job may have several attempts."""
    return row.id, row.token


logger = logging.getLogger("penstock.settle")

BATCH = 1000
BUSY_AGAIN = 0.05
# After a lapse of the lease, how often a settle that pauses is told to try again.
LAPSED_AGAIN = 0.25
PASSING_TRIES = 5
# Once this many rows of a state are refused and none is written, the others are not tried, and the
# worker claims no more jobs.
REFUSED_TO_STOP_AT = 3
# The first pause before kept outcomes are tried again, as a part of the longest.
KEPT_RETRY_FIRST = 1 / 32
MESSAGE_LIMIT = 300
IDS_TOLD = 1000
WRITTEN_AGAIN = "Outcomes are written again after %.1f s."
NO_LOSS = " No loss could be counted now: the lease runs out, and a rescue counts a loss for each."
NONE_LEFT = (
    "After %.1f s no outcome is left that cannot be written: none of them was written, since their "
    "jobs are no longer this worker's."
)

OnSettled = Callable[[Sequence[Settlement]], None]
OnRefused = Callable[[Settlement, Answer], None]


class Refused(NamedTuple):
    """A row that could not be written, neither as it is nor as failed."""

    settlement: Settlement
    error: Exception
    # Others of its state are written, so the refusal concerns this one alone.
    is_alone: bool

    @property
    def is_row_fault(self) -> bool:
        """Whether the row itself may be at fault."""
        return not store_errors.is_transient(self.error) and store_errors.is_row_fault(self.error)

    @property
    def is_of_all(self) -> bool:
        """Whether another row would fare no better."""
        return not store_errors.is_transient(self.error) and not store_errors.is_row_fault(
            self.error
        )


class RowLocked(Exception):
    """Somebody has held the lock of a job's row ever since its outcome was to be written."""

    sqlstate = "55P03"

    def __init__(self) -> None:
        super().__init__("a transaction that stays open has locked the job's row")


class StillWriting(Exception):
    """A settle takes long, and has not failed."""

    def __init__(self) -> None:
        super().__init__("the statement that writes them is still running")


class Settler:
    """Outcomes on their way to the database."""

    def __init__(
        self,
        pool: Pool,
        store: Store,
        health: Health,
        *,
        partitions_ahead: int,
        retry_most: float,
        backoff: tuple[float, float],
        tell_after: float,
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
        # The first and the longest pause before a settle that failed is tried again.
        self._backoff_first, self._backoff_last = backoff
        # What keeps outcomes from being written is logged at ERROR once they have waited so long.
        self._tell_after = min(tell_after, retry_most)
        self._overdue = Overdue(self._tell_after, self._all, self._tell_overdue)
        self._before = before
        self._settled = settled
        self._refused = refused
        self._flushed = flushed
        self._unwritten_changed = unwritten_changed
        self._waiting: list[Settlement] = []
        self._busy: list[Settlement] = []
        self._kept: list[Refused] = []
        # The batch of the flush under way, and which of its rows are written, answered or put off.
        self._in_flight: list[Settlement] = []
        self._landed: set[tuple[int, UUID]] = set()
        self._flushing: asyncio.Task[None] | None = None
        self._busy_timer: asyncio.TimerHandle | None = None
        self._kept_timer: asyncio.TimerHandle | None = None
        self._kept_pause = KEPT_RETRY_FIRST * retry_most
        # Of the flush under way: rows that were refused, rows that were not tried after these, and
        # the states of rows that were written.
        self._refused_rows: list[Refused] = []
        self._untried: list[Settlement] = []
        self._written: set[str] = set()
        # Since when outcomes have been put off or kept; and of those kept, whether each is refused
        # alone.
        self._since: dict[int, float] = {}
        self._refusals: dict[int, bool] = {}
        self._last_written: dict[str, float] = {}
        # Why the last settle failed; and the last one of each row that was put off.
        self._trouble: Exception | None = None
        self._troubles: dict[int, Exception] = {}
        self._unwritten_since = 0.0
        # Which errors that may pass have been logged: their codes, and that the database is away.
        self._warned: set[str] = set()
        self._is_outage_told = False
        # The lease has been lost; then the outcomes that were unwritten when the next was taken.
        self._is_lapse_new = False
        self._lapsed: set[tuple[int, UUID]] = set()
        # Whether one of those that were told to be unwritten has been written.
        self._is_late_written = False
        self._closing = False
        self._closed = False
        self._empty = asyncio.Event()
        self._empty.set()
        # What is told of outcomes that cannot be written.
        self.unwritten: Unwritten | None = None
        # The process is about to end: what the lease names stays there, although the event loop may
        # still write outcomes.
        self._is_last_word = False
        # The database has refused everything for long: one more job may show whether it still does.
        self.wants_probe = False

    @property
    def unsettled(self) -> int:
        in_flight = len(self._in_flight) - len(self._landed)
        return len(self._waiting) + len(self._busy) + len(self._kept) + in_flight

    @property
    def is_refused(self) -> bool:
        """Whether the database writes no outcomes of some state: no job should be claimed."""
        return self.unwritten is not None and not self.unwritten.is_claiming

    @property
    def is_stuck(self) -> bool:
        """Whether nothing is left but what the database has refused for long."""
        is_lasting = self._lasted(self._since) >= self._retry_most
        return self._empty.is_set() and self.unwritten is not None and is_lasting

    def _lasted(self, jobs: Iterable[int]) -> float:
        """For how many seconds the oldest outcome of these jobs has waited."""
        first = min((self._since[job] for job in jobs if job in self._since), default=math.inf)
        return time.monotonic() - first

    def jobs(self) -> list[int]:
        """The jobs whose outcomes are not written yet."""
        return [one.id for one in self._all()]

    def _all(self) -> list[Settlement]:
        kept = (one.settlement for one in self._kept)
        in_flight = (one for one in self._in_flight if key(one) not in self._landed)
        return [*self._waiting, *self._busy, *kept, *in_flight]

    def note_lapse(self) -> None:
        """The lease is lost: others may take back the jobs of unwritten outcomes."""
        self._is_lapse_new = True

    @property
    def has_lapsed(self) -> bool:
        """Whether there may be unwritten outcomes of jobs under a lease that was lost."""
        return self._is_lapse_new or bool(self._lapsed)

    async def try_lapsed(self, seconds: float) -> None:
        """Try at once to write the outcomes of jobs under a lease that was lost.

        Ends once each is written or refused, or after these seconds.
        """
        unwritten = set(map(key, self._all()))
        self._lapsed = unwritten if self._is_lapse_new else self._lapsed & unwritten
        self._is_lapse_new = False
        if not self._lapsed or self._closing:
            return
        self._retry_kept()
        end = time.monotonic() + seconds
        while self._is_trying(self._lapsed) and time.monotonic() < end:
            self._health.end_pauses()
            await asyncio.sleep(LAPSED_AGAIN)

    def _is_trying(self, outcomes: set[tuple[int, UUID]]) -> bool:
        """Whether some are unwritten, and not kept until later."""
        kept = {key(one.settlement) for one in self._kept}
        return any(key(one) in outcomes - kept for one in self._all())

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
            self._overdue.watch()
            self._flushing = asyncio.create_task(self._flush(), name="penstock settle")

    async def drained(self) -> None:
        """Wait until everything handed over is settled, answered, or kept to be tried later."""
        await self._empty.wait()

    async def close(self, timeout: float) -> None:
        """Write what is left, for as long as that may take, but once more at most what is kept."""
        self._closing = True
        self._retry_kept()
        if self._flushing is not None:
            self._empty.clear()
        try:
            async with asyncio.timeout(timeout):
                await self.drained()
        except TimeoutError:
            pass
        self._closed = True
        self._overdue.stop()
        for timer in (self._busy_timer, self._kept_timer):
            if timer is not None:
                timer.cancel()
        if self._flushing is not None:
            self._flushing.cancel()
            await asyncio.gather(self._flushing, return_exceptions=True)
        self._name_given_up(self.given_up())

    def last_words(self) -> list[Settlement]:
        """Log how many outcomes are unwritten as the process ends, and return them. Called from
        another thread."""
        if rest := self.given_up():
            logger.error(
                "Outcomes that are not written when the process ends: %d. Their jobs will be run "
                "again, with a loss counted where the database can be told.",
                len(rest),
            )
            self._is_last_word = True
            self._name_given_up(rest)
        return rest

    def _name_given_up(self, rest: Sequence[Settlement]) -> None:
        """Name in the lease the jobs whose outcomes will not be written any more: if nobody can
        count their losses now, a rescue does."""
        if rest:
            error = "WorkerStopped" if self.unwritten is None else self.unwritten.error
            self._name(rest, error, self._why, False)

    @property
    def _why(self) -> str:
        return "The worker stopped." if self.unwritten is None else self.unwritten.message

    async def give_up(self) -> None:
        """After the close: jobs whose outcomes could not be written have run, and count a loss."""
        rest, begun = self._all(), self.given_up()
        if not rest:
            return
        counts = NO_LOSS if begun else ""
        try:
            if begun:
                lost = await self._store.mark_outcomes_lost(self._pool, begun, self._why)
                counts = f" Losses counted: {len(lost)}."
        finally:
            logger.error(
                "Outcomes that could not be written: %d. Their jobs will be run again.%s",
                len(rest),
                counts,
            )
        self._waiting, self._busy, self._kept, self._in_flight = [], [], [], []
        self._landed.clear()

    def given_up(self) -> list[Settlement]:
        """After the close: the outcomes of attempts that had begun, and that are not written."""
        return list(filter(_has_run, self._all()))

    async def _flush(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
                self._in_flight = batch
                await self._before()
                await self._settle(batch)
                await self._end_of_flush()
                self._flushed()
        finally:
            self._flushing = None
            if self.unsettled == len(self._kept):
                self._empty.set()

    async def _settle(self, batch: list[Settlement]) -> None:
        """Settle a batch, whatever it takes: wait for the database, halve around a bad row."""
        backoff, tries = self._backoff_first, 0
        while True:
            if self._is_in_vain(batch):
                self._untried += batch
                return
            try:
                batch = await self._checked(batch)
                unsettled = await self._store.settle(self._pool, batch) if batch else []
            except Exception as error:
                store_errors.raise_if_cancelled(error)
                self._trouble = error
                tries += 1
                trouble = await self._heeded(error)
                if not _may_wait(trouble, tries):
                    await self._halve(batch, trouble)
                    return
                is_unavailable = store_errors.is_unavailable(error)
                await (self._health.pause(backoff) if is_unavailable else asyncio.sleep(backoff))
                backoff = min(backoff * 2, self._backoff_last)
                continue
            self._health.report_recovery("settle")
            self._is_outage_told = False
            self._trouble = None
            self._tell(batch, unsettled)
            return

    def _is_in_vain(self, batch: Sequence[Settlement]) -> bool:
        """Whether rows of each state in a batch have been refused, and none was written."""
        return all(
            state not in self._written
            and sum(_state(one.settlement) == state for one in self._refused_rows)
            >= REFUSED_TO_STOP_AT
            for state in set(map(_state, batch))
        )

    async def _heeded(self, error: Exception) -> Exception:
        """Do what helps against an error; the error that is left to be reckoned with."""
        if store_errors.is_unavailable(error):
            self._health.report_outage("settle", error)
            await self._health.recover_from(error)
        elif store_errors.is_partition_missing(error):
            try:
                await self._store.ensure_partitions(self._pool, self._partitions_ahead)
            except Exception as why:
                store_errors.raise_if_cancelled(why)
                # That a lock was not free says less than which row has no partition.
                return (
                    why
                    if store_errors.is_lost(why) or not store_errors.is_transient(why)
                    else error
                )
        elif store_errors.is_server_fault(error):
            self._warn(error)
        return error

    def _warn(self, error: Exception) -> None:
        """Log an error that may pass and keeps outcomes from being written: once until all are."""
        cause, code = store_errors.cause(error), store_errors.sqlstate(error)
        if code not in self._warned:
            self._warned.add(code)
            logger.warning("Outcomes cannot be written yet: %s; trying again.", cause)

    async def _checked(self, batch: list[Settlement]) -> list[Settlement]:
        """What is left to write: not those that their handler's own transaction has completed."""
        checks = [one for one in batch if one.is_check]
        if not checks:
            return batch
        completed = await self._store.find_completed(self._pool, checks)
        done = [one._replace(transition=DONE) for one in checks if one.id in completed]
        self._tell(done, ())
        return [one for one in batch if not (one.is_check and one.id in completed)]

    async def _halve(self, batch: list[Settlement], error: Exception) -> None:
        if len(batch) > 1:
            for part in _parts(batch):
                await self._settle(part)
            return
        bad = batch[0]
        is_written = _state(bad) in self._written
        is_alone = store_errors.is_row_fault(error) and (
            is_written or self._refusals.get(bad.id, False)
        )
        if store_errors.is_transient(error):
            self._put_off(bad, error)
        elif (is_alone and store_errors.breaks_constraint(error)) or await self._is_unstorable(
            bad, error
        ):
            await self._fail(bad, error)
        else:
            self._refused_rows.append(Refused(bad, error, is_alone))

    async def _is_unstorable(self, bad: Settlement, error: Exception) -> bool:
        """Whether no table of Postgres could store an outcome; tested once for each refused one."""
        if bad.id in self._refusals or not store_errors.is_row_fault(error):
            return False
        try:
            await self._store.try_outcome(self._pool, bad)
        except Exception as why:
            store_errors.raise_if_cancelled(why)
            return store_errors.is_permanent(why) and store_errors.is_row_fault(why)
        return False

    async def _fail(self, bad: Settlement, error: Exception) -> None:
        """Fail the job of a row that is itself at fault, with the refusal as its error."""
        told = {"kind": "failure", "type": type(error).__name__, "message": repr(str(error))}
        refusal = bad._replace(
            transition=Transition("failed", "unsettleable", error=told), result=None
        )
        try:
            unsettled = await self._store.settle(self._pool, [refusal])
        except Exception as again:
            store_errors.raise_if_cancelled(again)
            if store_errors.is_lost(again) or store_errors.is_transient(again):
                self._put_off(bad, again)
            else:
                is_alone = _state(bad) in self._written and store_errors.is_row_fault(again)
                self._refused_rows.append(Refused(bad, again, is_alone))
            return
        logger.error("The outcome of job %d could not be written, it is failed: %s", bad.id, error)
        self._tell([refusal], unsettled)

    # What is refused

    async def _end_of_flush(self) -> None:
        """Tell rows that are refused alone from those that wait until the database writes again."""
        refused, self._refused_rows = self._refused_rows, []
        untried, self._untried = self._untried, []
        written, self._written = self._written, set()
        refused = [one for one in refused if not (one.is_alone and await self._lose(one))]
        self._refusals |= {one.settlement.id: True for one in refused if one.is_alone}
        self._in_flight = []
        self._landed.clear()

        def needs_proof(one: Refused) -> bool:
            """Others are written: if it is refused once more now, it is refused alone."""
            is_open = one.is_row_fault and not self._refusals.get(one.settlement.id, False)
            return is_open and _state(one.settlement) in written

        again = [one for one in refused if needs_proof(one)]
        kept = [one for one in refused if not needs_proof(one)]
        if again or any(map(needs_proof, self._kept)):
            self._written = written
            self._waiting[:0] = [one.settlement for one in again]
            self._retry_kept()
        if kept:
            # First those that were not tried: one of them may show that the database writes.
            others = [Refused(one, kept[0].error, False) for one in untried]
            self._keep([*others, *kept])
        elif not self._refusals:
            # None is kept, nor on its way once more.
            self._over()

    async def _lose(self, refused: Refused) -> bool:
        """Take back a job whose outcome alone is refused: it has run, so this counts as a loss."""
        bad, error, _ = refused
        try:
            lost = await self._store.mark_outcomes_lost(
                self._pool, [bad], store_errors.cause(error)
            )
        except Exception as why:
            store_errors.raise_if_cancelled(why)
            logger.info("The job %d could not be taken back: %s", bad.id, why)
            return False
        if lost:
            self._landed.add(key(bad))
            self._is_over_for([bad])
            logger.error("The outcome of job %d is refused, it counts as lost: %s", bad.id, error)
        return bool(lost)

    def _keep(self, rows: list[Refused]) -> None:
        """Try rows again later, with growing pauses."""
        self._kept += rows
        now = time.monotonic()
        for one in rows:
            self._since.setdefault(one.settlement.id, now)
            self._refusals.setdefault(one.settlement.id, False)
        open_ = [one for one in self._kept if self._may_concern_all(one)]
        states = Counter(_state(one.settlement) for one in open_)
        is_claiming = not any(one.is_of_all for one in open_) and all(
            count < REFUSED_TO_STOP_AT for count in states.values()
        )
        if self.is_refused and open_:
            # Some may be on their way once more: only what was written since is news.
            is_claiming &= any(
                self._last_written.get(state, 0.0) > self._unwritten_since for state in states
            )
        # One odd row is told only once it has lasted: others will mostly show what it is.
        is_lasting = self._lasted(one.settlement.id for one in self._kept) >= self._tell_after
        if not is_claiming or is_lasting or self.unwritten is not None:
            error = (open_ or rows)[0].error
            self._say([one.settlement for one in self._kept], error, is_claiming)
        if self._closing:
            return
        if self._kept_timer is None:
            # One probe for each retry of the kept outcomes: its own outcome may be refused, too.
            is_slow = self._kept_pause >= self._retry_most
            self.wants_probe = (
                not is_claiming and is_slow and any(one.is_row_fault for one in open_)
            )
            loop = asyncio.get_running_loop()
            self._kept_timer = loop.call_later(self._kept_pause, self._retry_kept)
            self._kept_pause = min(2 * self._kept_pause, self._retry_most)

    def _may_concern_all(self, one: Refused) -> bool:
        """Whether a row may be refused because all rows of its state are."""
        job = one.settlement.id
        if one.is_of_all:
            return True
        if one.is_row_fault:
            return not self._refusals[job]
        last = self._last_written.get(_state(one.settlement), 0.0)
        return not isinstance(one.error, RowLocked) and last <= self._since[job]

    def _tell_overdue(self) -> None:
        """Some outcomes have waited for long, and are not kept."""
        # What is kept has been judged when it was refused.
        rows = [one for one in self._all() if one.id not in self._refusals]
        late = self._overdue.among(rows)
        if not late:
            return
        oldest = max(late, key=self._overdue.age)
        error = self._troubles.get(oldest.id) or self._trouble or StillWriting()
        if store_errors.is_lost(error):
            self._tell_outage(self.unsettled, error, self._overdue.age(oldest))
            return
        now = time.monotonic()
        for one in late:
            self._since.setdefault(one.id, now - self._overdue.age(one))
        self._say_overdue(rows, late, error)
        if not self._closing:
            self._empty.set()

    def _say_overdue(
        self, rows: Sequence[Settlement], late: Sequence[Settlement], error: Exception
    ) -> None:
        states = self._states_held_up(late)
        held_up = [one for one in rows if _state(one) in states and not self._is_locked(one)]
        others = [one for one in late if _state(one) not in states or self._is_locked(one)]
        kept = [one for one in self._all() if one.id in self._refusals]
        counts = Counter(map(_state, held_up))
        is_claiming = (
            not _takes_no_writes(error)
            and not (self.is_refused and kept)
            and all(count < REFUSED_TO_STOP_AT for count in counts.values())
        )
        self._say([*kept, *held_up, *others], error, is_claiming)

    def _tell_outage(self, jobs: int, error: Exception, seconds: float) -> None:
        if not (self._is_outage_told or self.unwritten is not None):
            self._is_outage_told = True
            logger.error(
                "The outcomes of %s have not been written for %.0f s: %s. This worker keeps "
                "them and tries again.",
                counted(jobs, "job"),
                seconds,
                store_errors.cause(error),
            )

    def _states_held_up(self, late: Sequence[Settlement]) -> set[str]:
        """The states of which no outcome has been written since overdue ones began to wait."""
        now = time.monotonic()
        return {
            _state(one)
            for one in late
            if not self._is_locked(one)
            and self._last_written.get(_state(one), 0.0) <= now - self._overdue.age(one)
        }

    def _is_locked(self, row: Settlement) -> bool:
        """Whether its own job's row is locked, which concerns no other."""
        return isinstance(self._troubles.get(row.id), RowLocked)

    def _say(self, rows: Sequence[Settlement], error: Exception, is_claiming: bool) -> None:
        """Say which outcomes cannot be written: once, and once more when no other can be."""
        if self.unwritten is None:
            self._unwritten_since = time.monotonic()
            self._is_late_written = False
        if self.unwritten is None or (self.unwritten.is_claiming and not is_claiming):
            logger.error(
                "The outcomes of %s cannot be written (%s): %s This worker keeps them, tries again "
                "and %s.",
                counted(len(rows), "job"),
                store_errors.sqlstate(error) or type(error).__name__,
                store_errors.with_hint(error),
                "goes on with others" if is_claiming else "claims nothing until it works",
            )
        message = (store_errors.message(error) or store_errors.cause(error))[:MESSAGE_LIMIT]
        self._name(rows, type(error).__name__, message, is_claiming)

    def _name(
        self, rows: Sequence[Settlement], error: str, message: str, is_claiming: bool
    ) -> None:
        told = Unwritten(
            len(rows),
            error,
            message,
            is_claiming,
            # If this worker is lost, a rescue counts a loss for each of these.
            tuple(str(one.id) for one in filter(_has_run, rows))[:IDS_TOLD],
        )
        if told != self.unwritten:
            self.unwritten = told
            self._unwritten_changed()

    def _retry_kept(self) -> None:
        if self._kept_timer is not None:
            self._kept_timer.cancel()
            self._kept_timer = None
        kept, self._kept = self._kept, []
        if kept:
            self._waiting[:0] = [one.settlement for one in kept]
            self._flush_soon()

    def _over(self) -> None:
        self._kept_pause = KEPT_RETRY_FIRST * self._retry_most
        self.wants_probe = False
        if self.unwritten is None or self._is_last_word:
            return
        if not self._overdue.among(self._all()):
            self.unwritten = None
            self._unwritten_changed()
            seconds = time.monotonic() - self._unwritten_since
            logger.warning(WRITTEN_AGAIN if self._is_late_written else NONE_LEFT, seconds)
            self._is_late_written = False

    def _tell(
        self, batch: Sequence[Settlement], unsettled: Sequence[tuple[int, UUID, Answer]]
    ) -> None:
        answers = {(job, token): answer for job, token, answer in unsettled}
        settled = []
        for settlement in batch if answers else ():
            answer = answers.get(key(settlement))
            if answer is None:
                settled.append(settlement)
            elif answer == "busy":
                self._put_off(settlement, RowLocked())
            else:
                self._landed.add(key(settlement))
                self._is_over_for([settlement])
                _pass_on(self._refused, settlement, answer)
        if not answers and len(batch) == len(self._in_flight):
            self._in_flight = []
        else:
            self._landed.update(map(key, settled if answers else batch))
        self._note_written(settled if answers else batch)
        _pass_on(self._settled, settled if answers else batch)

    def _note_written(self, settled: Sequence[Settlement]) -> None:
        states = set(map(_state, settled))
        self._written |= states
        self._last_written |= dict.fromkeys(states, time.monotonic())
        if self._since:
            self._is_late_written |= any(one.id in self._since for one in settled)
            self._is_over_for(settled)
        if self._warned and not self._since:
            self._warned.clear()

    def _is_over_for(self, settlements: Sequence[Settlement]) -> None:
        for one in settlements:
            self._since.pop(one.id, None)
            self._refusals.pop(one.id, None)
            self._troubles.pop(one.id, None)

    def _put_off(self, settlement: Settlement, error: Exception) -> None:
        """Ask again in a moment; the others go on. What lasts is kept, and told."""
        since = self._since.setdefault(settlement.id, time.monotonic())
        self._troubles[settlement.id] = error
        if not (isinstance(error, RowLocked) or store_errors.is_unavailable(error)):
            self._warn(error)
        if time.monotonic() - since >= self._tell_after:
            self._refused_rows.append(Refused(settlement, error, False))
            return
        self._landed.add(key(settlement))
        self._busy.append(settlement)
        if self._busy_timer is None:
            loop = asyncio.get_running_loop()
            self._busy_timer = loop.call_later(BUSY_AGAIN, self._ask_again)

    def _ask_again(self) -> None:
        self._busy_timer = None
        again, self._busy = self._busy, []
        for settlement in again:
            self.submit(settlement)


def _pass_on(call: Callable[..., None], *news: Any) -> None:
    """Tell others what became of outcomes. Whoever follows jobs may fail; the next are written."""
    try:
        call(*news)
    except Exception:
        logger.exception("What follows the writing of outcomes has failed.")


def _takes_no_writes(error: Exception) -> bool:
    """Whether a smaller batch would fare no better until the database has changed."""
    return store_errors.is_unavailable(error) and not store_errors.is_out_of_memory(error)


def _may_wait(trouble: Exception, tries: int) -> bool:
    """Whether to try the same batch again."""
    may_pass = store_errors.is_transient(trouble) or store_errors.is_partition_missing(trouble)
    return _takes_no_writes(trouble) or (may_pass and tries < PASSING_TRIES)


def _has_run(settlement: Settlement) -> bool:
    """Whether an outcome is that of an attempt that had begun."""
    attempt = settlement.source
    return attempt is not None and attempt.has_begun and settlement.transition is not RELEASED


def _state(settlement: Settlement) -> str:
    """The state that an outcome gives its job."""
    return settlement.transition.state


def _parts(batch: list[Settlement]) -> tuple[list[Settlement], list[Settlement]]:
    """Split a batch by state, since a whole state may be refused; else in halves."""
    state = _state(batch[0])
    if others := [one for one in batch if _state(one) != state]:
        return [one for one in batch if _state(one) == state], others
    middle = len(batch) // 2
    return batch[:middle], batch[middle:]
