"""Collects items in groups, and starts the calls of groups that are due."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator

from penstock.store import ClaimedJob
from penstock.worker.claim.queue import QueueState
from penstock.worker.limits.keeper import LimitKeeper
from penstock.worker.run.executor import Executor
from penstock.worker.run.items import SharedCall
from penstock.worker.timing import DEFAULT_TIMING, Timing


class GroupStarter:
    """Holds the items that wait for shared calls, and starts the calls that are due."""

    def __init__(
        self,
        executor: Executor,
        limit_keeper: LimitKeeper,
        states: Collection[QueueState],
        register_call: Callable[[SharedCall], bool],
        start_ready: Callable[[QueueState], None],
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        self._executor = executor
        self._limit_keeper = limit_keeper
        self._states = states
        self._register_call = register_call
        self._start_ready = start_ready
        self._wait = timing.items_wait
        self._loop = asyncio.get_running_loop()

    def __iter__(self) -> Iterator[ClaimedJob]:
        for state in self._states:
            yield from state.groups

    def add(self, state: QueueState, job: ClaimedJob) -> None:
        """Add an item. The item already counts against its limits."""
        if not self._executor.add_to_group(job, state):
            self._limit_keeper.undo_start(job)

    def start(self, state: QueueState) -> bool:
        """Start the calls that are due, and give back groups that have waited too long for a slot.

        Return whether one of the calls is over already, so that more may start.
        """
        groups, now, is_over = state.groups, self._loop.time(), False
        while state.slots.free > 0 and (group := groups.next(now)):
            state.slots.take()
            is_over = not self._register_call(self._executor.start_call(group, state)) or is_over
        while group := groups.next(now - self._wait):
            # No slot has become free for it; another worker may have one.
            self._release(entry.job for entry in group.entries)
        if (due := groups.next_due) is not None:
            self._schedule(state, due if state.slots.free > 0 else due + self._wait)
        return is_over

    def _schedule(self, state: QueueState, at: float) -> None:
        """Check again when the next call is due, or when it has waited too long for a slot."""
        if state.groups.timer is not None:
            state.groups.timer.cancel()
        state.groups.timer = self._loop.call_at(at, self._start_ready, state)

    def cancel(self, state: QueueState, job: ClaimedJob) -> None:
        """Drop an item."""
        state.groups.remove(job)
        self._limit_keeper.undo_start(job)

    def release_all(self) -> None:
        """Give back all items that wait."""
        self._release(self.clear())

    def _release(self, jobs: Iterable[ClaimedJob]) -> None:
        for job in jobs:
            self._limit_keeper.undo_start(job)
            self._executor.release(job)

    def clear(self) -> list[ClaimedJob]:
        """Remove and return all items. They still count against their limits."""
        jobs: list[ClaimedJob] = []
        for state in self._states:
            if state.groups.timer is not None:
                state.groups.timer.cancel()
            jobs.extend(state.groups.clear())
        return jobs
