"""Puts items into groups, and groups that are due into slots."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator

from penstock.store import ClaimedJob
from penstock.worker.claim.queue import QueueState
from penstock.worker.limits.keeper import LimitKeeper
from penstock.worker.run.executor import Executor
from penstock.worker.run.items import SharedCall
from penstock.worker.timing import DEFAULT_TIMING, Timing


class Gatherer:
    """The items of a worker that wait for the calls which they will share."""

    def __init__(
        self,
        executor: Executor,
        limiter: LimitKeeper,
        states: Collection[QueueState],
        began: Callable[[SharedCall], bool],
        look: Callable[[QueueState], None],
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        self._executor = executor
        self._limiter = limiter
        self._states = states
        self._began = began
        self._look = look
        self._wait = timing.items_wait
        self._loop = asyncio.get_running_loop()

    def __iter__(self) -> Iterator[ClaimedJob]:
        for state in self._states:
            yield from state.gathering

    def add(self, state: QueueState, job: ClaimedJob) -> None:
        """Take in an item that counts against its limits already: it will not ask again."""
        if not self._executor.gather(job, state):
            self._limiter.undo(job)

    def start(self, state: QueueState) -> bool:
        """Start the calls that are due; whether one is over already, so that more may start."""
        gathering, now, is_over = state.gathering, self._loop.time(), False
        while state.slots.free > 0 and (group := gathering.next(now)):
            state.slots.take()
            is_over = not self._began(self._executor.start_call(group, state)) or is_over
        while group := gathering.next(now - self._wait):
            # No slot has been free for it: another worker may have one.
            self._give_back(entry.job for entry in group.entries)
        if (due := gathering.next_due) is not None:
            self._come_back(state, due if state.slots.free > 0 else due + self._wait)
        return is_over

    def _come_back(self, state: QueueState, at: float) -> None:
        """Look again when the next call is due, or has waited for a slot for too long."""
        if state.gathering.timer is not None:
            state.gathering.timer.cancel()
        state.gathering.timer = self._loop.call_at(at, self._look, state)

    def cancel(self, state: QueueState, job: ClaimedJob) -> None:
        """Forget an item."""
        state.gathering.remove(job)
        self._limiter.undo(job)

    def give_back(self) -> None:
        """All that wait go back."""
        self._give_back(self.clear())

    def _give_back(self, jobs: Iterable[ClaimedJob]) -> None:
        for job in jobs:
            self._limiter.undo(job)
            self._executor.release(job)

    def clear(self) -> list[ClaimedJob]:
        """Give up all of them; they still count against their limits."""
        dropped: list[ClaimedJob] = []
        for state in self._states:
            if state.gathering.timer is not None:
                state.gathering.timer.cancel()
            dropped.extend(state.gathering.clear())
        return dropped
