"""Puts claimed jobs into slots, and knows what runs."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Container
from uuid import UUID

from penstock.store import Attempt
from penstock.worker.executor import Executor
from penstock.worker.gatherer import Gatherer
from penstock.worker.item_run import SharedCall
from penstock.worker.limiter import HELD_MOST, Limiter
from penstock.worker.queue_state import QueueState
from penstock.worker.run import Run, StopReason
from penstock.worker.solitude import Solitude

logger = logging.getLogger("penstock.worker")

# So many starts in a row, then everything else on the loop gets its turn.
STARTS = 200


class Dispatcher:
    """Starts what was fetched while slots are free.

    A job whose worker was lost before runs in a child process. If it cannot, because a child would
    not find its task, it runs alone here, and nothing else waits here meanwhile: if it takes this
    worker down too, it takes no neighbours with it, and the guilty one is found.
    """

    def __init__(
        self,
        executor: Executor,
        limiter: Limiter,
        move: Callable[[Attempt, str], None],
        states: Collection[QueueState],
        batched: Container[str],
        wants: Callable[[QueueState], None],
        make_alone: Callable[[], Awaitable[None]],
        wait: float,
    ) -> None:
        self._executor = executor
        self._limiter = limiter
        self._move = move
        self._states = states
        self._batched = batched
        self._wants = wants
        self._make_alone = make_alone
        self._wait = wait
        self._gatherer = Gatherer(executor, limiter, states, self._call_began, self.pump)
        self._solitude = Solitude(wait)
        self._loop = asyncio.get_running_loop()
        self._pumping = False
        self._apart: deque[tuple[QueueState, Attempt]] = deque()
        self._apart_timer: asyncio.TimerHandle | None = None
        self._clearing: asyncio.Task[None] | None = None
        self._alone: Run | None = None
        self._empty = asyncio.Event()
        self._empty.set()
        self.running: dict[int, Run] = {}
        self.closed = False

    @property
    def is_reserved(self) -> bool:
        """Whether a job runs alone or waits to: nothing else may start."""
        return self._alone is not None or bool(self._apart)

    @property
    def reserved_for(self) -> int | None:
        """The job that runs alone, or the next that will. May be asked from another thread."""
        if (alone := self._alone) is not None:
            return alone.attempt.id
        try:
            return self._apart[0][1].id
        except IndexError:
            return None

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

    def _start_some(self, state: QueueState) -> int:
        left, slots, hand = STARTS, state.slots, state.hand
        gathering, batched = state.gathering, self._batched
        if hand:
            state.is_wary = False
        while left and slots.used < slots.limit and not self.closed:
            if gathering.size and gathering.slots_due(self._loop.time(), slots.free) >= slots.free:
                break
            attempt = hand.take()
            if attempt is None:
                break
            left -= 1
            losses = attempt.row["losses"]
            is_isolated = losses and self._executor.isolates(attempt)
            if losses and not is_isolated:
                if self._solitude.grant():
                    self._set_apart(state, attempt)
                    return left
            else:
                self._solitude.end()
            if attempt.task in batched and not is_isolated:
                self._begin(state, attempt)
                self._gatherer.add(state, attempt)
                if gathering.is_crowded:
                    break
            else:
                gathering.expected = 0
                self._start(state, attempt)
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
        for run in call.runs:
            self.running[run.attempt.id] = run
        self._empty.clear()
        call.future.add_done_callback(lambda _: self._call_ended(call))
        return True

    def _call_ended(self, call: SharedCall) -> None:
        self._call_left(call)
        if self.is_reserved:
            self._run_apart()
        else:
            self.pump(call.state)

    def _call_left(self, call: SharedCall) -> None:
        for run in call.runs:
            self._left(run)
        call.state.slots.give_back(call.seconds, len(call.runs))

    # Limits

    def _move_on(self, state: QueueState) -> bool:
        """What holds up its line goes to the one it belongs in, or back if it has long to wait."""
        has_moved = False
        for attempt in state.hand.newly_held():
            if (lane := self._limiter.holdings.proper_lane(attempt)) is not None:
                self._drop(state, attempt)
                self._move(attempt, lane)
                has_moved = True
        if state.hand.is_held and self._limiter.has_shut:
            self._release_shut(state)
        for lane in state.hand.long_held(HELD_MOST):
            for attempt in state.hand.of_lane(lane):
                self._drop(state, attempt)
                self._executor.release(attempt)
        return has_moved

    def _drop(self, state: QueueState, attempt: Attempt) -> None:
        state.hand.remove(attempt)
        self._limiter.dismiss(attempt)

    def recount(self) -> None:
        """The limits are new: they hold also for what runs already, and for what is at hand."""
        for run in self.running.values():
            self._limiter.recount(run.attempt, runs=True)
        for _, attempt in self._apart:
            self._limiter.recount(attempt, runs=True)
        for attempt in self._gatherer:
            self._limiter.recount(attempt, runs=True)
        for state in self._states:
            state.hand.hold_none()
            for attempt in state.hand:
                self._limiter.recount(attempt, runs=False)

    def _start(self, state: QueueState, attempt: Attempt) -> Run | None:
        self._begin(state, attempt)
        return self._run(state, attempt)

    def _begin(self, state: QueueState, attempt: Attempt) -> None:
        # Those that it was counted against at hand may be the last of their limits.
        if state.hand.is_limited or attempt.allowances:
            self._limiter.begin(attempt)

    def _run(self, state: QueueState, attempt: Attempt) -> Run | None:
        state.slots.take()
        run = self._executor.start(attempt, state)
        if run is None or run.future is None or run.future.done():
            state.slots.give_back()
            if attempt.allowances:
                (self._limiter.end if run else self._limiter.undo)(attempt)
            return None
        self.running[attempt.id] = run
        self._empty.clear()
        run.future.add_done_callback(lambda _: self._ended(run))
        return run

    def _left(self, run: Run) -> None:
        """An attempt is over: nothing of it stays here."""
        if run.timer is not None:
            run.timer.cancel()
        if not run.is_settled:
            self._executor.never_ran(run)
        if self.running.get(run.attempt.id) is run:
            del self.running[run.attempt.id]
        if run.attempt.allowances:
            (self._limiter.end if run.has_begun else self._limiter.undo)(run.attempt)
        if not self.running:
            self._empty.set()

    def _ended(self, run: Run) -> None:
        self._left(run)
        run.state.slots.give_back(run.seconds)
        if run is self._alone:
            self._alone = None
            self._after_alone()
        elif self.is_reserved:
            self._run_apart()
        else:
            self.pump(run.state)

    # Jobs that run alone

    def _set_apart(self, state: QueueState, attempt: Attempt) -> None:
        logger.info(
            "Job %d has lost its worker before (losses: %d); it runs alone.",
            attempt.id,
            attempt.losses,
        )
        state.is_wary = True
        # While it waits nobody else may have its slot: it will not ask again.
        self._begin(state, attempt)
        self._apart.append((state, attempt))
        if self._apart_timer is None:
            self._apart_timer = self._loop.call_later(self._wait, self._run_apart, True)
        self._run_apart()

    def _run_apart(self, is_late: bool = False) -> None:
        """Run the next set-apart job once nothing else does, or when it has waited long enough."""
        if is_late:
            self._apart_timer = None
        if self.closed or self._alone is not None or not self._apart:
            return
        if self._clearing is None and (is_late or not self.running):
            self._clearing = self._loop.create_task(self._run_alone(), name="penstock isolation")

    async def _run_alone(self) -> None:
        try:
            await self._make_alone()
        finally:
            self._clearing = None
        if self._apart and not self.closed:
            state, attempt = self._apart.popleft()
            self._alone = self._run(state, attempt)
        if self._alone is None:
            self._after_alone()

    def _after_alone(self) -> None:
        if self._apart:
            self._loop.call_soon(self._run_apart)
            return
        if self._apart_timer is not None:
            self._apart_timer.cancel()
            self._apart_timer = None
        for state in self._states:
            self._loop.call_soon(self.pump, state)

    # What a worker needs to know and do

    def jobs(self) -> list[int]:
        """All jobs that are here: running, fetched, gathered, set apart."""
        held = [attempt.id for state in self._states for attempt in (*state.hand, *state.gathering)]
        return [*self.running, *held, *(attempt.id for _, attempt in self._apart)]

    def release_fetched(self) -> None:
        """What was fetched and not begun goes back."""
        for state in self._states:
            for attempt in state.hand.clear():
                self._limiter.dismiss(attempt)
                self._executor.release(attempt)
        self._gatherer.give_back()

    def release_shut(self) -> None:
        """What was fetched and may not begin for a while, its key being closed, goes back."""
        for state in self._states:
            self._release_shut(state)

    def _release_shut(self, state: QueueState) -> None:
        shut = {one.row["lane"] for one in state.hand.heads() if self._limiter.is_shut(one)}
        for attempt in tuple(state.hand) if shut else ():
            if attempt.row["lane"] in shut:
                self._drop(state, attempt)
                self._executor.release(attempt)

    def give_back(self) -> None:
        """What was fetched and will not begin goes back at once."""
        if self._clearing is not None:
            self._clearing.cancel()
        for attempt in self._take_unstarted():
            self._executor.release(attempt)

    def forget(self) -> None:
        """The lease is gone: what was fetched is not ours any more, what runs must stop."""
        self._take_unstarted()
        self.stop_all("lost")

    def _take_unstarted(self) -> list[Attempt]:
        begun = [*(attempt for _, attempt in self._apart), *self._gatherer.clear()]
        self._apart.clear()
        for attempt in begun:
            self._limiter.undo(attempt)
        unstarted = [attempt for state in self._states for attempt in state.hand.clear()]
        if self._apart_timer is not None:
            self._apart_timer.cancel()
            self._apart_timer = None
        for attempt in unstarted:
            self._limiter.dismiss(attempt)
        return [*begun, *unstarted]

    def cancel(self, job: int, token: UUID) -> None:
        """An attempt was cancelled: stop it if it runs, forget it if it has not begun."""
        run = self.running.get(job)
        if run is not None and run.attempt.token == token:
            run.stop("cancelled")
            return
        for place in tuple(self._apart):
            if place[1].token == token:
                self._apart.remove(place)
                self._limiter.undo(place[1])
                self._after_alone()
        for state in self._states:
            for attempt in tuple(state.hand):
                if attempt.token == token:
                    self._drop(state, attempt)
                    self._wants(state)
            for attempt in tuple(state.gathering):
                if attempt.token == token:
                    self._gatherer.cancel(state, attempt)

    def stop_all(self, reason: StopReason) -> None:
        for run in tuple(self.running.values()):
            run.stop(reason)

    async def drained(self) -> None:
        """Wait until nothing runs."""
        await self._empty.wait()
