"""Runs suspects alone in this worker, for a limited time."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from time import monotonic
from uuid import UUID

from penstock.store import ClaimedJob
from penstock.worker.attempt import Attempt
from penstock.worker.claim.queue import QueueState


class ExclusiveTimeLimit:
    """Limits how long suspects may have the worker to themselves.

    A worker that died with a hundred jobs leaves a hundred suspects, of which at most one is
    guilty. Running each of them alone could take a day, while fresh jobs wait. So suspects have the
    worker to themselves for a while, and then run beside other jobs for as long.
    """

    def __init__(self, max_seconds: float) -> None:
        self._max_seconds = max_seconds
        self._since: float | None = None
        self._denied_until = 0.0

    def grant(self) -> bool:
        """Return whether a suspect may have the worker to itself now."""
        now = monotonic()
        if now < self._denied_until:
            return False
        if self._since is None:
            self._since = now
        if now - self._since < self._max_seconds:
            return True
        self.deny()
        return False

    def deny(self) -> None:
        """Let suspects run beside other jobs for the next `max_seconds`."""
        self._denied_until = monotonic() + self._max_seconds
        self._since = None

    def end(self) -> None:
        """Reset the time limit, because an ordinary job has started."""
        self._since = None


logger = logging.getLogger("penstock.worker")


class ExclusiveRunner:
    """Runs suspects that no child process can run, one at a time.

    Nothing else starts while a suspect runs or waits to run. If a suspect kills this worker too, no
    other job pays for it, and the guilty job is found. A suspect that has run alone for `wait`
    seconds goes on beside other jobs, because a long job would keep them all waiting.
    """

    def __init__(
        self,
        run: Callable[[QueueState, ClaimedJob], Attempt | None],
        is_free: Callable[[], bool],
        make_room: Callable[[], Awaitable[None]],
        resume: Callable[[], None],
        wait: float,
    ) -> None:
        self._run = run
        self._is_free = is_free
        self._make_room = make_room
        self._resume = resume
        self._wait = wait
        self._time_limit = ExclusiveTimeLimit(wait)
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[QueueState, ClaimedJob]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._open_timer: asyncio.TimerHandle | None = None
        self._clear_task: asyncio.Task[None] | None = None
        self._running: Attempt | None = None
        self.closed = False

    def __iter__(self) -> Iterator[ClaimedJob]:
        """Iterate over the jobs that wait."""
        return (job for _, job in self._waiting)

    @property
    def is_wanted(self) -> bool:
        """Whether a job runs alone or waits to run alone, so that nothing else may start."""
        return self._running is not None or bool(self._waiting)

    @property
    def job(self) -> int | None:
        """The id of the job that runs alone or will run alone next.

        Safe to call from any thread.
        """
        if (running := self._running) is not None:
            return running.job.id
        try:
            return self._waiting[0][1].id
        except IndexError:
            return None

    def takes(self, is_suspect: bool) -> bool:
        """Return whether a job that is about to start must run alone."""
        if is_suspect:
            return self._time_limit.grant()
        self._time_limit.end()
        return False

    def add(self, state: QueueState, job: ClaimedJob) -> None:
        """Add a job that must run alone. The job already counts against its limits."""
        logger.info(
            "An earlier worker was lost while it had job %d (losses: %d), so the job runs alone.",
            job.id,
            job.losses,
        )
        state.fetches_singly = True
        self._waiting.append((state, job))
        if self._timer is None:
            self._timer = self._loop.call_later(self._wait, self.run_next_if_free, True)
        self.run_next_if_free()

    def run_next_if_free(self, is_overdue: bool = False) -> None:
        """Run the next job if nothing else runs, or if the job has waited long enough."""
        if is_overdue:
            self._timer = None
        if self.closed or self._running is not None or not self._waiting:
            return
        if self._clear_task is None and (is_overdue or self._is_free()):
            self._clear_task = self._loop.create_task(self._run_next(), name="penstock isolation")

    async def _run_next(self) -> None:
        try:
            await self._make_room()
        finally:
            self._clear_task = None
        if self._waiting and not self.closed:
            self._running = self._run(*self._waiting.popleft())
        if self._running is None:
            self._continue()
        else:
            self._open_timer = self._loop.call_later(self._wait, self._let_others_run)

    def _let_others_run(self) -> None:
        """Let other jobs run beside this one, which has been alone for long enough."""
        attempt, self._running, self._open_timer = self._running, None, None
        logger.warning(
            "%r has run alone for %g s, because a worker was lost while it ran the job. "
            "Other jobs now run beside it.",
            attempt,
            self._wait,
        )
        self._time_limit.deny()
        waiting = tuple(self._waiting)
        self._waiting.clear()
        if not self.closed:
            for state, job in waiting:
                self._run(state, job)
        self._continue()

    def note_end(self, attempt: Attempt) -> bool:
        """Note that an attempt is over. Return whether this runner decides what starts next."""
        if attempt is self._running:
            self._running = None
            if self._open_timer is not None:
                self._open_timer.cancel()
                self._open_timer = None
            self._continue()
            return True
        self.run_next_if_free()
        return self.is_wanted

    def _continue(self) -> None:
        """Go on with the next suspect, or let other jobs start again."""
        if self._waiting:
            self._loop.call_soon(self.run_next_if_free)
            return
        self._stop_timer()
        self._resume()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def cancel(self, token: UUID) -> ClaimedJob | None:
        """Remove a waiting job and return it, or None if the job does not wait."""
        for entry in tuple(self._waiting):
            if entry[1].token == token:
                self._waiting.remove(entry)
                self._continue()
                return entry[1]
        return None

    def cancel_next(self) -> None:
        """Cancel the start of the next job."""
        if self._clear_task is not None:
            self._clear_task.cancel()

    def clear(self) -> list[ClaimedJob]:
        """Remove and return the waiting jobs. They still count against their limits."""
        waiting = list(self)
        self._waiting.clear()
        self._stop_timer()
        return waiting
