"""Writes outcomes to the database, and retries when outages or refusals prevent that."""

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
from penstock.lifecycle import DatabaseHealth
from penstock.outcome import DONE, RELEASED, Transition
from penstock.store import Answer, Pool, Settlement, Store
from penstock.store import errors as store_errors
from penstock.wording import counted

# How often the outcomes are checked within the time after which they are overdue.
CHECKS_PER_LIMIT = 8


class OverdueWatch:
    """Checks the unwritten outcomes at regular times, and calls back if some are overdue.

    One settle may take minutes, or may fail and be retried in parts for as long. A report at its
    end would come too late.
    """

    def __init__(
        self,
        after: float,
        unwritten: Callable[[], Sequence[Settlement]],
        on_overdue: Callable[[], None],
    ) -> None:
        self._after = after
        self._pause = after / CHECKS_PER_LIMIT
        self._unwritten = unwritten
        self._on_overdue = on_overdue
        self._ages: dict[tuple[int, UUID], float] = {}
        self._checked_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def watch(self) -> None:
        """Check the outcomes at regular times from now on, until all are written."""
        if self._timer is None:
            self._checked_at = time.monotonic()
            self._check_later()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def filter_overdue(self, rows: Sequence[Settlement]) -> list[Settlement]:
        """Return the rows that are overdue."""
        return [row for row in rows if self.age(row) >= self._after]

    def age(self, row: Settlement) -> float:
        """Return how many seconds an outcome has waited to be written.

        Time in which the whole process stood still does not count.
        """
        return self._ages.get(attempt_key(row), 0.0)

    def _check_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._pause, self._check)

    def _check(self) -> None:
        now = time.monotonic()
        # While this whole process stood still, no outcome could be written.
        passed = min(now - self._checked_at, 2 * self._pause)
        self._checked_at = now
        rows = self._unwritten()
        self._ages = {
            attempt_key(row): self._ages.get(attempt_key(row), -passed) + passed for row in rows
        }
        self._timer = None
        if not rows:
            return
        self._check_later()
        if self.filter_overdue(rows):
            self._on_overdue()


def attempt_key(row: Settlement) -> tuple[int, UUID]:
    """Return the job and the token, which together identify an outcome.

    The job alone does not, because a job may have several attempts.
    """
    return row.id, row.token


logger = logging.getLogger("penstock.settle")

MAX_BATCH = 1000
BUSY_RETRY_S = 0.05
# While a settle pauses, outcomes under a lost lease make it try again this often.
LAPSED_RETRY_S = 0.25
PASSING_TRIES = 5
# Once this many rows of a state are refused and none is written, the others are not tried, and the
# worker claims no more jobs.
REFUSED_TO_STOP_AT = 3
# The first pause before kept outcomes are tried again, as a part of the longest.
KEPT_RETRY_FIRST = 1 / 32
MAX_MESSAGE_CHARS = 300
MAX_IDS_REPORTED = 1000
WRITTEN_AGAIN = "Outcomes are written again after %.1f s."
NO_LOSS = (
    " Their losses could not be counted now. Once the lease has expired, the rescue counts a "
    "loss for each."
)
NONE_LEFT = (
    "After %.1f s no unwritten outcome is left. None of them was written, because their jobs no "
    "longer belong to this worker."
)

OnSettled = Callable[[Sequence[Settlement]], None]
OnRefused = Callable[[Settlement, Answer], None]


class RefusedOutcome(NamedTuple):
    """An outcome that could not be written, neither as it is nor as a failure."""

    settlement: Settlement
    error: Exception
    # Whether others of its state are written, so that the refusal concerns this row alone.
    is_only_one: bool

    @property
    def is_row_fault(self) -> bool:
        """Whether the row itself may be at fault."""
        return not store_errors.is_transient(self.error) and store_errors.is_row_fault(self.error)

    @property
    def is_of_all(self) -> bool:
        """Whether any other row would be refused, too."""
        return not store_errors.is_transient(self.error) and not store_errors.is_row_fault(
            self.error
        )


class RowLocked(Exception):
    """Another transaction holds the lock of a job's row, so the job's outcome cannot be written."""

    sqlstate = "55P03"

    def __init__(self) -> None:
        super().__init__("a transaction that stays open has locked the job's row")


class StillWriting(Exception):
    """A settle takes long, but has not failed."""

    def __init__(self) -> None:
        super().__init__("the statement that writes them is still running")


class Settler:
    """Writes outcomes in batches.

    It retries while the database is away, halves a batch around a bad row, and keeps refused
    outcomes to try them again later.
    """

    def __init__(
        self,
        pool: Pool,
        store: Store,
        health: DatabaseHealth,
        *,
        partitions_ahead: int,
        retry_most: float,
        backoff: tuple[float, float],
        report_after: float,
        before_settle: Callable[[], Awaitable[None]],
        on_settled: OnSettled,
        on_refused: OnRefused,
        on_flushed: Callable[[], None],
        on_unwritten_changed: Callable[[], None],
    ) -> None:
        self._pool = pool
        self._store = store
        self._health = health
        self._partitions_ahead = partitions_ahead
        self._retry_most = retry_most
        # The first and the longest pause before a settle that failed is tried again.
        self._backoff_first, self._backoff_last = backoff
        # Outcomes that have waited this long are logged at ERROR, with what keeps them from being
        # written.
        self._report_after = min(report_after, retry_most)
        self._overdue = OverdueWatch(self._report_after, self._all_unwritten, self._report_overdue)
        self._before_settle = before_settle
        self._on_settled = on_settled
        self._on_refused = on_refused
        self._on_flushed = on_flushed
        self._on_unwritten_changed = on_unwritten_changed
        self._waiting: list[Settlement] = []
        self._busy: list[Settlement] = []
        self._kept: list[RefusedOutcome] = []
        # The batch of the flush under way, and which of its rows are written, answered or retried
        # later.
        self._in_flight: list[Settlement] = []
        self._answered: set[tuple[int, UUID]] = set()
        self._flushing: asyncio.Task[None] | None = None
        self._busy_timer: asyncio.TimerHandle | None = None
        self._kept_timer: asyncio.TimerHandle | None = None
        self._kept_pause = KEPT_RETRY_FIRST * retry_most
        # In the flush under way: rows that were refused, rows that were not tried after these, and
        # the states of rows that were written.
        self._refused_rows: list[RefusedOutcome] = []
        self._untried: list[Settlement] = []
        self._written: set[str] = set()
        # Since when outcomes have been retried or kept; and for those kept, whether each alone is
        # refused.
        self._waiting_since: dict[int, float] = {}
        self._kept_jobs: dict[int, bool] = {}
        self._last_written: dict[str, float] = {}
        # Why the last settle failed, and the last error of each row that was retried.
        self._last_error: Exception | None = None
        self._last_errors: dict[int, Exception] = {}
        self._unwritten_since = 0.0
        # The codes of passing errors that have been logged, and whether an outage has been.
        self._warned: set[str] = set()
        self._is_outage_logged = False
        # Whether the lease was lost since the last try_lapsed, and the outcomes that were unwritten
        # then.
        self._is_lapse_new = False
        self._lapsed: set[tuple[int, UUID]] = set()
        # Whether one of the outcomes reported as unwritten has been written.
        self._is_late_written = False
        self._closing = False
        self._closed = False
        self._empty = asyncio.Event()
        self._empty.set()
        # What the lease says of outcomes that cannot be written.
        self.unwritten: Unwritten | None = None
        # The process is about to end: what the lease says stays, although the loop may still write
        # outcomes.
        self._is_process_ending = False
        # The database has refused everything for long: one more job may show whether it still does.
        self.wants_probe = False

    @property
    def unsettled(self) -> int:
        in_flight = len(self._in_flight) - len(self._answered)
        return len(self._waiting) + len(self._busy) + len(self._kept) + in_flight

    @property
    def is_refused(self) -> bool:
        """Whether the database refuses all outcomes of some state.

        In that case no job should be claimed.
        """
        return self.unwritten is not None and not self.unwritten.is_claiming

    @property
    def is_stuck(self) -> bool:
        """Whether the only outcomes left are ones that the database has refused for a long time."""
        is_lasting = self._longest_wait(self._waiting_since) >= self._retry_most
        return self._empty.is_set() and self.unwritten is not None and is_lasting

    def _longest_wait(self, jobs: Iterable[int]) -> float:
        """Return for how many seconds the oldest outcome of these jobs has waited."""
        first = min(
            (self._waiting_since[job] for job in jobs if job in self._waiting_since),
            default=math.inf,
        )
        return time.monotonic() - first

    def jobs(self) -> list[int]:
        """Return the jobs whose outcomes are not written yet."""
        return [settlement.id for settlement in self._all_unwritten()]

    def _all_unwritten(self) -> list[Settlement]:
        kept = (row.settlement for row in self._kept)
        in_flight = (row for row in self._in_flight if attempt_key(row) not in self._answered)
        return [*self._waiting, *self._busy, *kept, *in_flight]

    def note_lapse(self) -> None:
        """Note that the lease is lost.

        Other workers may take back the jobs of unwritten outcomes.
        """
        self._is_lapse_new = True

    @property
    def has_lapsed(self) -> bool:
        """Whether there may be unwritten outcomes of jobs under a lost lease."""
        return self._is_lapse_new or bool(self._lapsed)

    async def try_lapsed(self, seconds: float) -> None:
        """Try at once to write the outcomes of jobs under a lost lease.

        Return once each outcome is written or refused, or after these seconds.
        """
        unwritten = set(map(attempt_key, self._all_unwritten()))
        self._lapsed = unwritten if self._is_lapse_new else self._lapsed & unwritten
        self._is_lapse_new = False
        if not self._lapsed or self._closing:
            return
        self._retry_kept()
        end = time.monotonic() + seconds
        while self._is_trying(self._lapsed) and time.monotonic() < end:
            self._health.end_pauses()
            await asyncio.sleep(LAPSED_RETRY_S)

    def _is_trying(self, outcomes: set[tuple[int, UUID]]) -> bool:
        """Return whether some of these outcomes are unwritten and not kept for later."""
        kept = {attempt_key(row.settlement) for row in self._kept}
        return any(
            attempt_key(settlement) in outcomes - kept for settlement in self._all_unwritten()
        )

    def submit(self, settlement: Settlement) -> None:
        """Accept an outcome. It is written as soon as the current flush is done."""
        if self._closed:
            logger.warning(
                "Job %d ended after its worker had stopped. Its outcome is not written, and it "
                "may run again.",
                settlement.id,
            )
            return
        self.wants_probe = False
        self._waiting.append(settlement)
        self._flush_soon()

    def _flush_soon(self) -> None:
        if self._flushing is None:
            self._empty.clear()
            self._overdue.watch()
            self._flushing = asyncio.create_task(self._flush(), name="penstock settle")

    async def wait_until_written(self) -> None:
        """Wait until every outcome is written, answered or kept for a later try.

        An outcome is answered if the database has refused it or found its row locked.
        """
        await self._empty.wait()

    async def close(self, timeout: float) -> None:
        """Write the remaining outcomes within the timeout, and try the kept ones once more."""
        self._closing = True
        self._retry_kept()
        if self._flushing is not None:
            self._empty.clear()
        try:
            async with asyncio.timeout(timeout):
                await self.wait_until_written()
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
        self._publish_given_up(self.list_given_up())

    def report_before_exit(self) -> list[Settlement]:
        """Log how many outcomes are unwritten as the process ends, and return them.

        Safe to call from another thread.
        """
        if rest := self.list_given_up():
            logger.error(
                "Jobs whose outcomes are not written when the process ends: %d. They will be run "
                "again. If the database can still be reached, each of them counts one loss.",
                len(rest),
            )
            self._is_process_ending = True
            self._publish_given_up(rest)
        return rest

    def _publish_given_up(self, rest: Sequence[Settlement]) -> None:
        """Name the jobs of given-up outcomes in the lease, so that a rescue counts losses."""
        if rest:
            error = "WorkerStopped" if self.unwritten is None else self.unwritten.error
            self._publish_unwritten(rest, error, self._reason, False)

    @property
    def _reason(self) -> str:
        return "The worker stopped." if self.unwritten is None else self.unwritten.message

    async def give_up(self) -> None:
        """After the close, count a loss for each job that has run, but has no written outcome."""
        rest, begun = self._all_unwritten(), self.list_given_up()
        if not rest:
            return
        counts = NO_LOSS if begun else ""
        try:
            if begun:
                lost = await self._store.mark_outcomes_lost(self._pool, begun, self._reason)
                counts = f" Losses counted: {len(lost)}."
        finally:
            logger.error(
                "Outcomes that could not be written: %d. Their jobs will be run again.%s",
                len(rest),
                counts,
            )
        self._waiting, self._busy, self._kept, self._in_flight = [], [], [], []
        self._answered.clear()

    def list_given_up(self) -> list[Settlement]:
        """Return, after the close, the unwritten outcomes of attempts that had begun."""
        return list(filter(_has_run, self._all_unwritten()))

    async def _flush(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
                self._in_flight = batch
                await self._before_settle()
                await self._settle(batch)
                await self._finish_flush()
                self._on_flushed()
        finally:
            self._flushing = None
            if self.unsettled == len(self._kept):
                self._empty.set()

    async def _settle(self, batch: list[Settlement]) -> None:
        """Settle a batch: wait for the database if it is away, halve the batch around a bad row."""
        backoff, tries = self._backoff_first, 0
        while True:
            if self._is_hopeless(batch):
                self._untried += batch
                return
            try:
                batch = await self._without_completed(batch)
                unsettled = await self._store.settle(self._pool, batch) if batch else []
            except Exception as error:
                store_errors.raise_if_cancelled(error)
                self._last_error = error
                tries += 1
                remaining_error = await self._try_to_help(error)
                if not _may_wait(remaining_error, tries):
                    await self._halve(batch, remaining_error)
                    return
                is_unavailable = store_errors.is_unavailable(error)
                await (self._health.pause(backoff) if is_unavailable else asyncio.sleep(backoff))
                backoff = min(backoff * 2, self._backoff_last)
                continue
            self._health.report_recovery("settle")
            self._is_outage_logged = False
            self._last_error = None
            self._handle_answers(batch, unsettled)
            return

    def _is_hopeless(self, batch: Sequence[Settlement]) -> bool:
        """Return whether every state in a batch had several rows refused and none written."""
        return all(
            state not in self._written
            and sum(_state_of(row.settlement) == state for row in self._refused_rows)
            >= REFUSED_TO_STOP_AT
            for state in set(map(_state_of, batch))
        )

    async def _try_to_help(self, error: Exception) -> Exception:
        """Try to remove the cause of an error, and return the error that remains."""
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
        """Log a temporary error that delays outcomes, once until all outcomes are written."""
        cause, code = store_errors.cause(error), store_errors.sqlstate(error)
        if code not in self._warned:
            self._warned.add(code)
            logger.warning("Outcomes cannot be written yet: %s; trying again.", cause)

    async def _without_completed(self, batch: list[Settlement]) -> list[Settlement]:
        """Return the batch without the jobs that their handler's transaction has completed."""
        checks = [row for row in batch if row.is_check]
        if not checks:
            return batch
        completed = await self._store.find_completed(self._pool, checks)
        done = [row._replace(transition=DONE) for row in checks if row.id in completed]
        self._handle_answers(done, ())
        return [row for row in batch if not (row.is_check and row.id in completed)]

    async def _halve(self, batch: list[Settlement], error: Exception) -> None:
        if len(batch) > 1:
            for part in _split(batch):
                await self._settle(part)
            return
        row = batch[0]
        is_written = _state_of(row) in self._written
        is_only_one = store_errors.is_row_fault(error) and (
            is_written or self._kept_jobs.get(row.id, False)
        )
        if store_errors.is_transient(error):
            self._retry_soon(row, error)
        elif (is_only_one and store_errors.breaks_constraint(error)) or await self._is_unstorable(
            row, error
        ):
            await self._fail(row, error)
        else:
            self._refused_rows.append(RefusedOutcome(row, error, is_only_one))

    async def _is_unstorable(self, row: Settlement, error: Exception) -> bool:
        """Return whether no table could store the outcome. Each refused outcome is tested once."""
        if row.id in self._kept_jobs or not store_errors.is_row_fault(error):
            return False
        try:
            await self._store.try_outcome(self._pool, row)
        except Exception as why:
            store_errors.raise_if_cancelled(why)
            return store_errors.is_permanent(why) and store_errors.is_row_fault(why)
        return False

    async def _fail(self, row: Settlement, error: Exception) -> None:
        """Fail a job whose outcome is itself at fault. The refusal becomes the job's error."""
        failure = {"kind": "failure", "type": type(error).__name__, "message": repr(str(error))}
        refusal = row._replace(
            transition=Transition("failed", "unsettleable", error=failure), result=None
        )
        try:
            unsettled = await self._store.settle(self._pool, [refusal])
        except Exception as again:
            store_errors.raise_if_cancelled(again)
            if store_errors.is_lost(again) or store_errors.is_transient(again):
                self._retry_soon(row, again)
            else:
                is_only_one = _state_of(row) in self._written and store_errors.is_row_fault(again)
                self._refused_rows.append(RefusedOutcome(row, again, is_only_one))
            return
        logger.error(
            "The outcome of job %d could not be written, so the job has failed: %s", row.id, error
        )
        self._handle_answers([refusal], unsettled)

    # Refused rows

    async def _finish_flush(self) -> None:
        """Separate rows that alone are refused from rows that wait for the database to recover."""
        refused, self._refused_rows = self._refused_rows, []
        untried, self._untried = self._untried, []
        written, self._written = self._written, set()
        refused = [row for row in refused if not (row.is_only_one and await self._count_loss(row))]
        self._kept_jobs |= {row.settlement.id: True for row in refused if row.is_only_one}
        self._in_flight = []
        self._answered.clear()

        def needs_proof(row: RefusedOutcome) -> bool:
            """Return whether to try a row again, because other rows of its state were written.

            If the database refuses the row again now, the fault is in this row alone.
            """
            is_open = row.is_row_fault and not self._kept_jobs.get(row.settlement.id, False)
            return is_open and _state_of(row.settlement) in written

        again = [row for row in refused if needs_proof(row)]
        kept = [row for row in refused if not needs_proof(row)]
        if again or any(map(needs_proof, self._kept)):
            self._written = written
            self._waiting[:0] = [row.settlement for row in again]
            self._retry_kept()
        if kept:
            # The untried rows go first: one of them may show that the database writes again.
            others = [RefusedOutcome(settlement, kept[0].error, False) for settlement in untried]
            self._keep_for_retry([*others, *kept])
        elif not self._kept_jobs:
            # No row is kept, nor being tried once more.
            self._clear_unwritten()

    async def _count_loss(self, refused: RefusedOutcome) -> bool:
        """Take back a job if its outcome alone is refused. Return whether that was done.

        The job has run, so this counts as a loss.
        """
        row, error, _ = refused
        try:
            lost = await self._store.mark_outcomes_lost(
                self._pool, [row], store_errors.cause(error)
            )
        except Exception as why:
            store_errors.raise_if_cancelled(why)
            logger.info(
                "Job %d, whose outcome was refused, could not be taken back yet: %s", row.id, why
            )
            return False
        if lost:
            self._answered.add(attempt_key(row))
            self._forget([row])
            logger.error(
                "The database refuses the outcome of job %d, so its attempt counts as lost: %s",
                row.id,
                error,
            )
        return bool(lost)

    def _keep_for_retry(self, rows: list[RefusedOutcome]) -> None:
        """Keep rows and retry them later, with growing pauses."""
        self._kept += rows
        now = time.monotonic()
        for row in rows:
            self._waiting_since.setdefault(row.settlement.id, now)
            self._kept_jobs.setdefault(row.settlement.id, False)
        open_ = [row for row in self._kept if self._may_concern_all(row)]
        states = Counter(_state_of(row.settlement) for row in open_)
        is_claiming = not any(row.is_of_all for row in open_) and all(
            count < REFUSED_TO_STOP_AT for count in states.values()
        )
        if self.is_refused and open_:
            # Some may be being tried once more: only what was written since then is news.
            is_claiming &= any(
                self._last_written.get(state, 0.0) > self._unwritten_since for state in states
            )
        # A single odd row is reported only once it has lasted: other rows will mostly show what it
        # is.
        is_lasting = (
            self._longest_wait(row.settlement.id for row in self._kept) >= self._report_after
        )
        if not is_claiming or is_lasting or self.unwritten is not None:
            error = (open_ or rows)[0].error
            self._report_unwritten([row.settlement for row in self._kept], error, is_claiming)
        if self._closing:
            return
        if self._kept_timer is None:
            # One probe for each retry of the kept outcomes: its own outcome may be refused, too.
            is_slow = self._kept_pause >= self._retry_most
            self.wants_probe = (
                not is_claiming and is_slow and any(row.is_row_fault for row in open_)
            )
            loop = asyncio.get_running_loop()
            self._kept_timer = loop.call_later(self._kept_pause, self._retry_kept)
            self._kept_pause = min(2 * self._kept_pause, self._retry_most)

    def _may_concern_all(self, row: RefusedOutcome) -> bool:
        """Return whether a row may be refused because all rows of its state are refused."""
        job = row.settlement.id
        if row.is_of_all:
            return True
        if row.is_row_fault:
            return not self._kept_jobs[job]
        last = self._last_written.get(_state_of(row.settlement), 0.0)
        return not isinstance(row.error, RowLocked) and last <= self._waiting_since[job]

    def _report_overdue(self) -> None:
        """Report outcomes that have waited for a long time and are not kept for a retry."""
        # Kept rows were judged when they were refused.
        rows = [row for row in self._all_unwritten() if row.id not in self._kept_jobs]
        late = self._overdue.filter_overdue(rows)
        if not late:
            return
        oldest = max(late, key=self._overdue.age)
        error = self._last_errors.get(oldest.id) or self._last_error or StillWriting()
        if store_errors.is_lost(error):
            self._log_outage(self.unsettled, error, self._overdue.age(oldest))
            return
        now = time.monotonic()
        for row in late:
            self._waiting_since.setdefault(row.id, now - self._overdue.age(row))
        self._report_late(rows, late, error)
        if not self._closing:
            self._empty.set()

    def _report_late(
        self, rows: Sequence[Settlement], late: Sequence[Settlement], error: Exception
    ) -> None:
        states = self._states_held_up(late)
        held_up = [row for row in rows if _state_of(row) in states and not self._is_locked(row)]
        others = [row for row in late if _state_of(row) not in states or self._is_locked(row)]
        kept = [row for row in self._all_unwritten() if row.id in self._kept_jobs]
        counts = Counter(map(_state_of, held_up))
        is_claiming = (
            not _takes_no_writes(error)
            and not (self.is_refused and kept)
            and all(count < REFUSED_TO_STOP_AT for count in counts.values())
        )
        self._report_unwritten([*kept, *held_up, *others], error, is_claiming)

    def _log_outage(self, jobs: int, error: Exception, seconds: float) -> None:
        if not (self._is_outage_logged or self.unwritten is not None):
            self._is_outage_logged = True
            logger.error(
                "The outcomes of %s have not been written for %.0f s: %s. This worker keeps "
                "them and tries again.",
                counted(jobs, "job"),
                seconds,
                store_errors.cause(error),
            )

    def _states_held_up(self, late: Sequence[Settlement]) -> set[str]:
        """Return the states of which no outcome was written while their overdue ones waited."""
        now = time.monotonic()
        return {
            _state_of(row)
            for row in late
            if not self._is_locked(row)
            and self._last_written.get(_state_of(row), 0.0) <= now - self._overdue.age(row)
        }

    def _is_locked(self, row: Settlement) -> bool:
        """Return whether the job's own row is locked, which delays no other outcome."""
        return isinstance(self._last_errors.get(row.id), RowLocked)

    def _report_unwritten(
        self, rows: Sequence[Settlement], error: Exception, is_claiming: bool
    ) -> None:
        """Log once that outcomes cannot be written, and again if that stops the worker's claims."""
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
                "goes on with other jobs"
                if is_claiming
                else "claims no jobs until they are written",
            )
        message = (store_errors.message(error) or store_errors.cause(error))[:MAX_MESSAGE_CHARS]
        self._publish_unwritten(rows, type(error).__name__, message, is_claiming)

    def _publish_unwritten(
        self, rows: Sequence[Settlement], error: str, message: str, is_claiming: bool
    ) -> None:
        unwritten = Unwritten(
            len(rows),
            error,
            message,
            is_claiming,
            # If this worker is lost, a rescue counts a loss for each of these.
            tuple(str(row.id) for row in filter(_has_run, rows))[:MAX_IDS_REPORTED],
        )
        if unwritten != self.unwritten:
            self.unwritten = unwritten
            self._on_unwritten_changed()

    def _retry_kept(self) -> None:
        if self._kept_timer is not None:
            self._kept_timer.cancel()
            self._kept_timer = None
        kept, self._kept = self._kept, []
        if kept:
            self._waiting[:0] = [row.settlement for row in kept]
            self._flush_soon()

    def _clear_unwritten(self) -> None:
        self._kept_pause = KEPT_RETRY_FIRST * self._retry_most
        self.wants_probe = False
        if self.unwritten is None or self._is_process_ending:
            return
        if not self._overdue.filter_overdue(self._all_unwritten()):
            self.unwritten = None
            self._on_unwritten_changed()
            seconds = time.monotonic() - self._unwritten_since
            logger.warning(WRITTEN_AGAIN if self._is_late_written else NONE_LEFT, seconds)
            self._is_late_written = False

    def _handle_answers(
        self, batch: Sequence[Settlement], unsettled: Sequence[tuple[int, UUID, Answer]]
    ) -> None:
        answers = {(job, token): answer for job, token, answer in unsettled}
        settled = []
        for settlement in batch if answers else ():
            answer = answers.get(attempt_key(settlement))
            if answer is None:
                settled.append(settlement)
            elif answer == "busy":
                self._retry_soon(settlement, RowLocked())
            else:
                self._answered.add(attempt_key(settlement))
                self._forget([settlement])
                _notify(self._on_refused, settlement, answer)
        if not answers and len(batch) == len(self._in_flight):
            self._in_flight = []
        else:
            self._answered.update(map(attempt_key, settled if answers else batch))
        self._note_written(settled if answers else batch)
        _notify(self._on_settled, settled if answers else batch)

    def _note_written(self, settled: Sequence[Settlement]) -> None:
        states = set(map(_state_of, settled))
        self._written |= states
        self._last_written |= dict.fromkeys(states, time.monotonic())
        if self._waiting_since:
            self._is_late_written |= any(row.id in self._waiting_since for row in settled)
            self._forget(settled)
        if self._warned and not self._waiting_since:
            self._warned.clear()

    def _forget(self, settlements: Sequence[Settlement]) -> None:
        for settlement in settlements:
            self._waiting_since.pop(settlement.id, None)
            self._kept_jobs.pop(settlement.id, None)
            self._last_errors.pop(settlement.id, None)

    def _retry_soon(self, settlement: Settlement, error: Exception) -> None:
        """Retry a row in a moment while the others go on.

        A row that has waited for long is kept and reported.
        """
        since = self._waiting_since.setdefault(settlement.id, time.monotonic())
        self._last_errors[settlement.id] = error
        if not (isinstance(error, RowLocked) or store_errors.is_unavailable(error)):
            self._warn(error)
        if time.monotonic() - since >= self._report_after:
            self._refused_rows.append(RefusedOutcome(settlement, error, False))
            return
        self._answered.add(attempt_key(settlement))
        self._busy.append(settlement)
        if self._busy_timer is None:
            loop = asyncio.get_running_loop()
            self._busy_timer = loop.call_later(BUSY_RETRY_S, self._resubmit_busy)

    def _resubmit_busy(self) -> None:
        self._busy_timer = None
        again, self._busy = self._busy, []
        for settlement in again:
            self.submit(settlement)


def _notify(call: Callable[..., None], *news: Any) -> None:
    """Call a listener.

    An error of the listener is logged, and the next outcomes are still written.
    """
    try:
        call(*news)
    except Exception:
        logger.exception("Code that is called after outcomes are written has failed.")


def _takes_no_writes(error: Exception) -> bool:
    """Return whether a smaller batch would fail as well, because the database is unavailable."""
    return store_errors.is_unavailable(error) and not store_errors.is_out_of_memory(error)


def _may_wait(error: Exception, tries: int) -> bool:
    """Return whether to try the same batch again."""
    may_pass = store_errors.is_transient(error) or store_errors.is_partition_missing(error)
    return _takes_no_writes(error) or (may_pass and tries < PASSING_TRIES)


def _has_run(settlement: Settlement) -> bool:
    """Return whether an outcome belongs to an attempt that had begun."""
    attempt = settlement.source
    return attempt is not None and attempt.has_begun and settlement.transition is not RELEASED


def _state_of(settlement: Settlement) -> str:
    """Return the state that an outcome gives its job."""
    return settlement.transition.state


def _split(batch: list[Settlement]) -> tuple[list[Settlement], list[Settlement]]:
    """Split a batch by state, because a whole state may be refused.

    Split a single state in halves.
    """
    state = _state_of(batch[0])
    if others := [row for row in batch if _state_of(row) != state]:
        return [row for row in batch if _state_of(row) == state], others
    middle = len(batch) // 2
    return batch[:middle], batch[middle:]
