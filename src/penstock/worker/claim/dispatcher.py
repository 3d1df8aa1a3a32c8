"""Puts claimed jobs into slots, and knows what runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Container
from uuid import UUID

from penstock.store import ClaimedJob
from penstock.worker.attempt import Attempt, StopReason
from penstock.worker.claim.queue import QueueState
from penstock.worker.limits.keeper import HELD_MOST, LimitKeeper
from penstock.worker.run.exclusive import ExclusiveRunner
from penstock.worker.run.executor import Executor
from penstock.worker.run.groups import Gatherer
from penstock.worker.run.items import SharedCall
from penstock.worker.timing import DEFAULT_TIMING, Timing

# So many starts in a row, then everything else on the loop gets its turn.
STARTS = 200


class Dispatcher:
    """Starts what was fetched while slots are free.

    A suspect, which was taken from a lost worker, runs in a child process. If it cannot, because a
    child would not find its task, it runs alone here, and nothing else waits here meanwhile.
    """

    def __init__(
        self,
        executor: Executor,
        limiter: LimitKeeper,
        move: Callable[[ClaimedJob, str], None],
        states: Collection[QueueState],
        batched: Container[str],
        wants: Callable[[QueueState], None],
        make_alone: Callable[[], Awaitable[None]],
        wait: float,
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        self._executor = executor
        self._limiter = limiter
        self._move = move
        self._states = states
        self._batched = batched
        self._wants = wants
        self._gatherer = Gatherer(executor, limiter, states, self._call_began, self.pump, timing)
        self._alone = ExclusiveRunner(
            self._run, lambda: not self.running, make_alone, self._pump_all, wait
        )
        self._loop = asyncio.get_running_loop()
        self._pumping = False
        self._empty = asyncio.Event()
        self._empty.set()
        self.running: dict[int, Attempt] = {}
        self.closed = False

    @property
    def is_reserved(self) -> bool:
        """Whether a job runs alone or waits to: nothing else may start."""
        return self._alone.is_wanted

    @property
    def reserved_for(self) -> int | None:
        """The job that runs alone, or the next that will. May be asked from another thread."""
        return self._alone.job

    def close(self) -> None:
        """Start nothing any more."""
        self.closed = self._alone.closed = True

    def pump(self, state: QueueState) -> None:
        """Start what was fetched for a queue, as far as its slots go."""
        if self._pumping or self.is_reserved or self.closed:
            return
        self._pumping = True
        try:
            left = self._start_some(state)
        finally:
            self._pumping = False
        if not left:
            self._loop.call_soon(self.pump, state)
        self._wants(state)

    def _pump_all(self) -> None:
        for state in self._states:
            self._loop.call_soon(self.pump, state)

    def _start_some(self, state: QueueState) -> int:
        left, slots, hand = STARTS, state.slots, state.hand
        gathering, batched = state.gathering, self._batched
        is_surprised = False
        if hand:
            state.is_wary = False
        while left and slots.used < slots.limit and not self.closed:
            if gathering.size and gathering.slots_due(self._loop.time(), slots.free) >= slots.free:
                break
            job = hand.take()
            if job is None:
                break
            left -= 1
            is_suspect = job.row["suspect"]
            is_isolated = is_suspect and self._executor.isolates(job)
            if self._alone.grants(is_suspect and not is_isolated):
                # While it waits nobody else may have its slot.
                self._begin(state, job)
                self._alone.add(state, job)
                return left
            # A suspect shares no call: its arguments are decoded only after its mark.
            if job.task in batched and not is_suspect:
                self._begin(state, job)
                self._gatherer.add(state, job)
                if gathering.is_crowded:
                    break
            else:
                if gathering.expected:
                    gathering.expected, is_surprised = 0, True
                self._start(state, job)
        if is_surprised and slots.free <= 0:
            # More was fetched than such jobs have slots: another worker may have some.
            self._release_hand(state)
        if gathering.size and not self.closed and self._gatherer.start(state):
            left = 0
        return 0 if hand.is_limited and self._move_on(state) else left

    # Calls that items share

    def _call_began(self, call: SharedCall) -> bool:
        """Know of the call of some items; False if it is over already."""
        assert call.future is not None
        if call.future.done():
            self._call_left(call)
            return False
        for attempt in call.attempts:
            self.running[attempt.job.id] = attempt
        self._empty.clear()
        call.future.add_done_callback(lambda _: self._call_ended(call))
        return True

    def _call_ended(self, call: SharedCall) -> None:
        self._call_left(call)
        self._alone.look()
        self.pump(call.state)

    def _call_left(self, call: SharedCall) -> None:
        for attempt in call.attempts:
            self._left(attempt)
        call.state.slots.give_back(call.seconds, len(call.attempts))

    # Limits

    def _move_on(self, state: QueueState) -> bool:
        """What holds up its line goes to the one it belongs in, or back if it has long to wait."""
        has_moved = False
        for job in state.hand.newly_held():
            if (lane := self._limiter.holdings.proper_lane(job)) is not None:
                self._drop(state, job)
                self._move(job, lane)
                has_moved = True
        if state.hand.is_held and self._limiter.has_shut:
            self._release_shut(state)
        for lane in state.hand.long_held(HELD_MOST):
            for job in state.hand.of_lane(lane):
                self._drop(state, job)
                self._executor.release(job)
        return has_moved

    def _drop(self, state: QueueState, job: ClaimedJob) -> None:
        state.hand.remove(job)
        self._limiter.dismiss(job)

    def recount(self) -> None:
        """The limits are new: they hold also for what runs already, and for what is at hand."""
        for attempt in self.running.values():
            self._limiter.recount(attempt.job, runs=True)
        for job in self._alone:
            self._limiter.recount(job, runs=True)
        for job in self._gatherer:
            self._limiter.recount(job, runs=True)
        for state in self._states:
            state.hand.hold_none()
            for job in state.hand:
                self._limiter.recount(job, runs=False)

    def _start(self, state: QueueState, job: ClaimedJob) -> Attempt | None:
        self._begin(state, job)
        return self._run(state, job)

    def _begin(self, state: QueueState, job: ClaimedJob) -> None:
        # Those that it was counted against at hand may be the last of their limits.
        if state.hand.is_limited or job.grants:
            self._limiter.begin(job)

    def _run(self, state: QueueState, job: ClaimedJob) -> Attempt | None:
        state.slots.take()
        attempt = self._executor.start(job, state)
        if attempt is None or attempt.future is None or attempt.future.done():
            state.slots.give_back()
            if job.grants:
                (self._limiter.end if attempt else self._limiter.undo)(job)
            return None
        self.running[job.id] = attempt
        self._empty.clear()
        attempt.future.add_done_callback(lambda _: self._ended(attempt))
        return attempt

    def _left(self, attempt: Attempt) -> None:
        """An attempt is over: nothing of it stays here."""
        if attempt.timer is not None:
            attempt.timer.cancel()
        if not attempt.is_settled:
            self._executor.never_ran(attempt)
        if self.running.get(attempt.job.id) is attempt:
            del self.running[attempt.job.id]
        if attempt.job.grants:
            (self._limiter.end if attempt.has_begun else self._limiter.undo)(attempt.job)
        if not self.running:
            self._empty.set()

    def _ended(self, attempt: Attempt) -> None:
        self._left(attempt)
        attempt.state.slots.give_back(attempt.seconds)
        if not self._alone.ended(attempt):
            self.pump(attempt.state)

    # What a worker needs to know and do

    def jobs(self) -> list[int]:
        """All jobs that are here: running, fetched, gathered, set apart."""
        held = [job.id for state in self._states for job in (*state.hand, *state.gathering)]
        return [*self.running, *held, *(job.id for job in self._alone)]

    def release_fetched(self) -> None:
        """What was fetched and not begun goes back."""
        for state in self._states:
            self._release_hand(state)
        self._gatherer.give_back()

    def _release_hand(self, state: QueueState) -> None:
        for job in state.hand.clear():
            self._limiter.dismiss(job)
            self._executor.release(job)

    def release_shut(self) -> None:
        """What was fetched and may not begin for a while, its key being closed, goes back."""
        for state in self._states:
            self._release_shut(state)

    def _release_shut(self, state: QueueState) -> None:
        shut = {one.row["lane"] for one in state.hand.heads() if self._limiter.is_shut(one)}
        for job in tuple(state.hand) if shut else ():
            if job.row["lane"] in shut:
                self._drop(state, job)
                self._executor.release(job)

    def give_back(self) -> None:
        """What was fetched and will not begin goes back at once."""
        self._alone.stop_clearing()
        for job in self._take_unstarted():
            self._executor.release(job)
        for attempt in tuple(self.running.values()):
            if not attempt.has_begun:
                attempt.stop("shutdown")

    def forget(self) -> None:
        """The lease is gone: what was fetched is not ours any more, what runs must stop."""
        self._take_unstarted()
        self.stop_all("lost")

    def _take_unstarted(self) -> list[ClaimedJob]:
        begun = [*self._alone.clear(), *self._gatherer.clear()]
        for job in begun:
            self._limiter.undo(job)
        unstarted = [job for state in self._states for job in state.hand.clear()]
        for job in unstarted:
            self._limiter.dismiss(job)
        return [*begun, *unstarted]

    def cancel(self, job_id: int, token: UUID) -> bool:
        """An attempt was cancelled: stop it if it runs, forget it if it has not begun.

        Whether it was here.
        """
        attempt = self.running.get(job_id)
        if attempt is not None and attempt.job.token == token:
            attempt.stop("cancelled")
            return True
        if (waiting := self._alone.cancel(token)) is not None:
            self._limiter.undo(waiting)
            return True
        for state in self._states:
            for job in tuple(state.hand):
                if job.token == token:
                    self._drop(state, job)
                    self._wants(state)
                    return True
            for job in tuple(state.gathering):
                if job.token == token:
                    self._gatherer.cancel(state, job)
                    return True
        return False

    def stop_all(self, reason: StopReason) -> None:
        for attempt in tuple(self.running.values()):
            attempt.stop(reason)

    async def drained(self) -> None:
        """Wait until nothing runs."""
        await self._empty.wait()
