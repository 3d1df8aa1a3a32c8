"""How long a worker may keep itself for jobs that run alone."""

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


class ExclusiveTurn:
    """A bound on isolation: after so many seconds of it in a row, the others count more.

    A worker that died with a hundred jobs leaves a hundred suspects, of which at most one is
    guilty. To run each of them alone could take a day; meanwhile fresh jobs would wait. So lone
    jobs get the worker for a while, and then for as long run beside the others.
    """

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._since: float | None = None
        self._denied_until = 0.0

    def grant(self) -> bool:
        """Whether a suspect may have the worker for itself now."""
        now = monotonic()
        if now < self._denied_until:
            return False
        if self._since is None:
            self._since = now
        if now - self._since < self._longest:
            return True
        self.deny()
        return False

    def deny(self) -> None:
        """From now on lone jobs run beside the others, for as long."""
        self._denied_until = monotonic() + self._longest
        self._since = None

    def end(self) -> None:
        """An ordinary job has started: the row is broken."""
        self._since = None


logger = logging.getLogger("penstock.worker")


class ExclusiveRunner:
    """Suspects that no child process can run.

    Nothing else starts here while one of them runs or waits to: if it takes this worker down too,
    no neighbour that had begun pays for it, and the guilty one is found. One that has run alone for
    `wait` seconds goes on beside the others, or a long job would keep them all waiting.
    """

    def __init__(
        self,
        attempt: Callable[[QueueState, ClaimedJob], Attempt | None],
        is_free: Callable[[], bool],
        make_room: Callable[[], Awaitable[None]],
        resume: Callable[[], None],
        wait: float,
    ) -> None:
        self._run = attempt
        self._is_free = is_free
        self._make_room = make_room
        self._resume = resume
        self._wait = wait
        self._solitude = ExclusiveTurn(wait)
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[QueueState, ClaimedJob]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._opening: asyncio.TimerHandle | None = None
        self._clearing: asyncio.Task[None] | None = None
        self._running: Attempt | None = None
        self.closed = False

    def __iter__(self) -> Iterator[ClaimedJob]:
        """Those that wait."""
        return (job for _, job in self._waiting)

    @property
    def is_wanted(self) -> bool:
        """Whether a job runs alone or waits to: nothing else may start."""
        return self._running is not None or bool(self._waiting)

    @property
    def job(self) -> int | None:
        """The job that runs alone, or the next that will. May be asked from another thread."""
        if (running := self._running) is not None:
            return running.job.id
        try:
            return self._waiting[0][1].id
        except IndexError:
            return None

    def grants(self, is_suspect: bool) -> bool:
        """Whether the next job to start may have the worker for itself, and needs to."""
        if is_suspect:
            return self._solitude.grant()
        self._solitude.end()
        return False

    def add(self, state: QueueState, job: ClaimedJob) -> None:
        """Take in a job that counts against its limits already: it will not ask again."""
        logger.info(
            "An earlier worker was lost while it had job %d (losses: %d), so the job runs alone.",
            job.id,
            job.losses,
        )
        state.is_wary = True
        self._waiting.append((state, job))
        if self._timer is None:
            self._timer = self._loop.call_later(self._wait, self.look, True)
        self.look()

    def look(self, is_late: bool = False) -> None:
        """Run the next once nothing else runs, or when it has waited long enough."""
        if is_late:
            self._timer = None
        if self.closed or self._running is not None or not self._waiting:
            return
        if self._clearing is None and (is_late or self._is_free()):
            self._clearing = self._loop.create_task(self._run_next(), name="penstock isolation")

    async def _run_next(self) -> None:
        try:
            await self._make_room()
        finally:
            self._clearing = None
        if self._waiting and not self.closed:
            self._running = self._run(*self._waiting.popleft())
        if self._running is None:
            self._go_on()
        else:
            self._opening = self._loop.call_later(self._wait, self._open)

    def _open(self) -> None:
        """It has been alone for long enough: those that wait, and everybody else, run beside it."""
        attempt, self._running, self._opening = self._running, None, None
        logger.warning(
            "%r has run alone for %g s, after its worker was lost: others run beside it now.",
            attempt,
            self._wait,
        )
        self._solitude.deny()
        waiting = tuple(self._waiting)
        self._waiting.clear()
        if not self.closed:
            for state, job in waiting:
                self._run(state, job)
        self._go_on()

    def ended(self, attempt: Attempt) -> bool:
        """Note that an attempt is over; say whether the next start is decided here."""
        if attempt is self._running:
            self._running = None
            if self._opening is not None:
                self._opening.cancel()
                self._opening = None
            self._go_on()
            return True
        self.look()
        return self.is_wanted

    def _go_on(self) -> None:
        """The next one's turn, or everybody's."""
        if self._waiting:
            self._loop.call_soon(self.look)
            return
        self._stop_timer()
        self._resume()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def cancel(self, token: UUID) -> ClaimedJob | None:
        """Forget one that waits; None if it does not."""
        for place in tuple(self._waiting):
            if place[1].token == token:
                self._waiting.remove(place)
                self._go_on()
                return place[1]
        return None

    def stop_clearing(self) -> None:
        """Nothing begins any more."""
        if self._clearing is not None:
            self._clearing.cancel()

    def clear(self) -> list[ClaimedJob]:
        """Give up those that wait; they still count against their limits."""
        waiting = list(self)
        self._waiting.clear()
        self._stop_timer()
        return waiting
