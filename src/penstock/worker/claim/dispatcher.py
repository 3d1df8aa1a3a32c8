"""Puts claimed jobs into slots, and knows which jobs run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Container
from uuid import UUID

from penstock.store import ClaimedJob
from penstock.worker.attempt import Attempt, StopReason
from penstock.worker.claim.queue import QueueState
from penstock.worker.limits.keeper import MAX_BLOCKED_S, LimitKeeper
from penstock.worker.run.exclusive import ExclusiveRunner
from penstock.worker.run.executor import Executor
from penstock.worker.run.groups import GroupStarter
from penstock.worker.run.items import SharedCall
from penstock.worker.timing import DEFAULT_TIMING, Timing

# After this many starts, the loop's other tasks have their turn.
MAX_STARTS_IN_A_ROW = 200


class Dispatcher:
    """Starts prefetched jobs while slots are free.

    A suspect, whose earlier worker was lost, runs in a child process. If no child can import its
    task, the suspect runs alone in this worker, and everything else waits meanwhile.
    """

    def __init__(
        self,
        executor: Executor,
        limit_keeper: LimitKeeper,
        move: Callable[[ClaimedJob, str], None],
        states: Collection[QueueState],
        batched: Container[str],
        claim_if_wanted: Callable[[QueueState], None],
        make_room: Callable[[], Awaitable[None]],
        wait: float,
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        self._executor = executor
        self._limit_keeper = limit_keeper
        self._move = move
        self._states = states
        self._batched = batched
        self._claim_if_wanted = claim_if_wanted
        self._group_starter = GroupStarter(
            executor, limit_keeper, states, self._register_call, self.start_ready, timing
        )
        self._exclusive = ExclusiveRunner(
            self._run, lambda: not self.running, make_room, self._start_ready_everywhere, wait
        )
        self._loop = asyncio.get_running_loop()
        self._is_starting = False
        self._empty = asyncio.Event()
        self._empty.set()
        self.running: dict[int, Attempt] = {}
        self.closed = False

    @property
    def is_reserved(self) -> bool:
        """Whether a job runs alone or waits to run alone, so that nothing else may start."""
        return self._exclusive.is_wanted

    @property
    def reserved_for(self) -> int | None:
        """The id of the job that runs alone or will run alone next.

        Safe to call from any thread.
        """
        return self._exclusive.job

    def close(self) -> None:
        """Start no more jobs."""
        self.closed = self._exclusive.closed = True

    def start_ready(self, state: QueueState) -> None:
        """Start prefetched jobs of a queue while it has free slots."""
        if self._is_starting or self.is_reserved or self.closed:
            return
        self._is_starting = True
        try:
            left = self._start_batch(state)
        finally:
            self._is_starting = False
        if not left:
            self._loop.call_soon(self.start_ready, state)
        self._claim_if_wanted(state)

    def _start_ready_everywhere(self) -> None:
        for state in self._states:
            self._loop.call_soon(self.start_ready, state)

    def _start_batch(self, state: QueueState) -> int:
        left, slots, buffer = MAX_STARTS_IN_A_ROW, state.slots, state.buffer
        groups, batched = state.groups, self._batched
        has_overfetched = False
        if buffer:
            state.fetches_singly = False
        while left and slots.used < slots.limit and not self.closed:
            if groups.size and groups.slots_due(self._loop.time(), slots.free) >= slots.free:
                break
            job = buffer.pop()
            if job is None:
                break
            left -= 1
            is_suspect = job.row["suspect"]
            is_isolated = is_suspect and self._executor.isolates(job)
            if self._exclusive.takes(is_suspect and not is_isolated):
                # While it waits, no other job may have its room.
                self._count_start(state, job)
                self._exclusive.add(state, job)
                return left
            # A suspect shares no call, because its arguments are decoded only after its mark.
            if job.task in batched and not is_suspect:
                self._count_start(state, job)
                self._group_starter.add(state, job)
                if groups.is_full:
                    break
            else:
                if groups.expected_items:
                    groups.expected_items, has_overfetched = 0, True
                self._start(state, job)
        if has_overfetched and slots.free <= 0:
            # More was prefetched than such jobs have slots for; another worker may have some.
            self._release_buffer(state)
        if groups.size and not self.closed and self._group_starter.start(state):
            left = 0
        return 0 if buffer.is_limited and self._handle_blocked_lanes(state) else left

    # Calls of micro-batched tasks

    def _register_call(self, call: SharedCall) -> bool:
        """Register the attempts of a call; return False if the call is over already."""
        assert call.future is not None
        if call.future.done():
            self._unregister_call(call)
            return False
        for attempt in call.attempts:
            self.running[attempt.job.id] = attempt
        self._empty.clear()
        call.future.add_done_callback(lambda _: self._on_call_done(call))
        return True

    def _on_call_done(self, call: SharedCall) -> None:
        self._unregister_call(call)
        self._exclusive.run_next_if_free()
        self.start_ready(call.state)

    def _unregister_call(self, call: SharedCall) -> None:
        for attempt in call.attempts:
            self._unregister(attempt)
        call.state.slots.give_back(call.seconds, len(call.attempts))

    # Limits

    def _handle_blocked_lanes(self, state: QueueState) -> bool:
        """Move or give back jobs that block their lane. Return whether any job was moved.

        A job that belongs in another lane is moved there. If a lane is blocked for too long, its
        jobs go back.
        """
        has_moved = False
        for job in state.buffer.pop_newly_blocked():
            if (lane := self._limit_keeper.book.proper_lane(job)) is not None:
                self._remove_prefetched(state, job)
                self._move(job, lane)
                has_moved = True
        if state.buffer.is_blocked and self._limit_keeper.has_closed_bucket:
            self._release_closed(state)
        for lane in state.buffer.list_long_blocked(MAX_BLOCKED_S):
            for job in state.buffer.jobs_of_lane(lane):
                self._remove_prefetched(state, job)
                self._executor.release(job)
        return has_moved

    def _remove_prefetched(self, state: QueueState, job: ClaimedJob) -> None:
        state.buffer.remove(job)
        self._limit_keeper.uncount_prefetched(job)

    def recount(self) -> None:
        """Count running and prefetched jobs again, because the limits have changed."""
        for attempt in self.running.values():
            self._limit_keeper.recount(attempt.job, runs=True)
        for job in self._exclusive:
            self._limit_keeper.recount(job, runs=True)
        for job in self._group_starter:
            self._limit_keeper.recount(job, runs=True)
        for state in self._states:
            state.buffer.unblock_all()
            for job in state.buffer:
                self._limit_keeper.recount(job, runs=False)

    def _start(self, state: QueueState, job: ClaimedJob) -> Attempt | None:
        self._count_start(state, job)
        return self._run(state, job)

    def _count_start(self, state: QueueState, job: ClaimedJob) -> None:
        # The keys that it was counted against may have lost their limits since.
        if state.buffer.is_limited or job.grants:
            self._limit_keeper.count_start(job)

    def _run(self, state: QueueState, job: ClaimedJob) -> Attempt | None:
        state.slots.take()
        attempt = self._executor.start(job, state)
        if attempt is None or attempt.future is None or attempt.future.done():
            state.slots.give_back()
            if job.grants:
                (self._limit_keeper.count_end if attempt else self._limit_keeper.undo_start)(job)
            return None
        self.running[job.id] = attempt
        self._empty.clear()
        attempt.future.add_done_callback(lambda _: self._on_done(attempt))
        return attempt

    def _unregister(self, attempt: Attempt) -> None:
        """Forget an attempt that is over."""
        if attempt.timer is not None:
            attempt.timer.cancel()
        if not attempt.is_settled:
            self._executor.handle_unstarted(attempt)
        if self.running.get(attempt.job.id) is attempt:
            del self.running[attempt.job.id]
        if attempt.job.grants:
            (self._limit_keeper.count_end if attempt.has_begun else self._limit_keeper.undo_start)(
                attempt.job
            )
        if not self.running:
            self._empty.set()

    def _on_done(self, attempt: Attempt) -> None:
        self._unregister(attempt)
        attempt.state.slots.give_back(attempt.seconds)
        if not self._exclusive.note_end(attempt):
            self.start_ready(attempt.state)

    # For the worker

    def jobs(self) -> list[int]:
        """Return the ids of all jobs in this worker.

        These are running, prefetched, in a group, or waiting to run alone.
        """
        waiting = [job.id for state in self._states for job in (*state.buffer, *state.groups)]
        return [*self.running, *waiting, *(job.id for job in self._exclusive)]

    def release_prefetched(self) -> None:
        """Give back all prefetched jobs, and all items that wait for a shared call."""
        for state in self._states:
            self._release_buffer(state)
        self._group_starter.release_all()

    def _release_buffer(self, state: QueueState) -> None:
        for job in state.buffer.clear():
            self._limit_keeper.uncount_prefetched(job)
            self._executor.release(job)

    def release_closed(self) -> None:
        """Give back prefetched jobs that wait for a bucket which is closed for a while."""
        for state in self._states:
            self._release_closed(state)

    def _release_closed(self, state: QueueState) -> None:
        jobs = state.buffer.first_jobs()
        lanes = {job.row["lane"] for job in jobs if self._limit_keeper.is_closed_for_long(job)}
        for job in tuple(state.buffer) if lanes else ():
            if job.row["lane"] in lanes:
                self._remove_prefetched(state, job)
                self._executor.release(job)

    def release_unstarted(self) -> None:
        """Give back at once all jobs that will not start, because the worker stops."""
        self._exclusive.cancel_next()
        for job in self._clear_unstarted():
            self._executor.release(job)
        for attempt in tuple(self.running.values()):
            if not attempt.has_begun:
                attempt.stop("shutdown")

    def drop_lost(self) -> None:
        """After the lease is lost, drop jobs that have not begun and stop jobs that run."""
        self._clear_unstarted()
        self.stop_all("lost")

    def _clear_unstarted(self) -> list[ClaimedJob]:
        counted = [*self._exclusive.clear(), *self._group_starter.clear()]
        for job in counted:
            self._limit_keeper.undo_start(job)
        unstarted = [job for state in self._states for job in state.buffer.clear()]
        for job in unstarted:
            self._limit_keeper.uncount_prefetched(job)
        return [*counted, *unstarted]

    def cancel(self, job_id: int, token: UUID) -> bool:
        """Stop or drop a cancelled job. Return whether this worker had the job."""
        attempt = self.running.get(job_id)
        if attempt is not None and attempt.job.token == token:
            attempt.stop("cancelled")
            return True
        if (waiting := self._exclusive.cancel(token)) is not None:
            self._limit_keeper.undo_start(waiting)
            return True
        for state in self._states:
            for job in tuple(state.buffer):
                if job.token == token:
                    self._remove_prefetched(state, job)
                    self._claim_if_wanted(state)
                    return True
            for job in tuple(state.groups):
                if job.token == token:
                    self._group_starter.cancel(state, job)
                    return True
        return False

    def stop_all(self, reason: StopReason) -> None:
        for attempt in tuple(self.running.values()):
            attempt.stop(reason)

    async def wait_until_idle(self) -> None:
        """Wait until nothing runs."""
        await self._empty.wait()
