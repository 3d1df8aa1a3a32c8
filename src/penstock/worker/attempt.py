"""The state of one claimed job while this worker has it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Literal

from penstock.connect.tracing import Trace
from penstock.store import ClaimedJob
from penstock.tasks import Task

if TYPE_CHECKING:
    from penstock.worker.claim.queue import QueueState

# "refused": the fence answered that the job is no longer this attempt's; the settle finds out
# whether that holds.
StopReason = Literal["timeout", "cancelled", "lost", "refused", "shutdown"]

# A timer that is this late was delayed together with the whole event loop.
LATE_TIMER_S = 1.0


class Attempt:
    """One claimed job while this worker runs it."""

    __slots__ = (
        "completed",
        "ended_at",
        "future",
        "has_begun",
        "is_settled",
        "job",
        "overdue",
        "started_at",
        "state",
        "stop_reason",
        "task",
        "timer",
        "trace",
    )

    def __init__(self, job: ClaimedJob, task: Task[Any, Any], state: QueueState) -> None:
        self.job = job
        self.state = state
        self.task = task
        self.started_at = time.monotonic()
        self.ended_at: float | None = None
        self.future: asyncio.Future[Any] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.stop_reason: StopReason | None = None
        self.overdue = False
        # False while a suspect waits for its mark, or if no child process had time for it.
        self.has_begun = True
        self.is_settled = False
        # Set by ctx.complete: the handler's own transaction settles this attempt.
        self.completed = False
        # The attempt's span, if jobs are traced.
        self.trace: Trace | None = None

    @property
    def seconds(self) -> float:
        """How many seconds the attempt took, or has taken so far."""
        return (self.ended_at or time.monotonic()) - self.started_at

    @property
    def is_uncertain(self) -> bool:
        """Whether another transaction may have decided what becomes of the job.

        The handler may have called ctx.complete, or the job may have been taken back. The settle
        finds out.
        """
        return self.completed or self.stop_reason == "refused"

    def stop(self, reason: StopReason) -> None:
        """Tell the handler to stop: an async one is cancelled, a sync one sees `ctx.cancelled`."""
        if self.stop_reason is None:
            self.stop_reason = reason
        elif self.stop_reason != "refused":
            return
        # This also stops an attempt that the fence refused, which had only been flagged so far.
        if self.future is not None and not self.future.done():
            self.future.cancel()

    def start_timeout(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        """Stop the attempt as timed out after these seconds."""
        self.timer = loop.call_later(seconds, self._time_out, loop)

    def _time_out(self, loop: asyncio.AbstractEventLoop) -> None:
        """Stop the attempt. If its timer was late, extend the time limit once instead.

        If the process stood still (SIGSTOP, a suspended laptop) or another handler blocked the
        loop, this handler could not run meanwhile. It gets the lost time back.
        """
        assert self.timer is not None
        assert self.job.timeout is not None
        late = loop.time() - self.timer.when()
        if late > LATE_TIMER_S:
            extra = min(late, self.job.timeout)
            self.timer = loop.call_later(extra, self.stop, "timeout")
        else:
            self.stop("timeout")

    def begin(self) -> None:
        """Mark an attempt that had to wait as begun, and measure its time from now."""
        self.has_begun = True
        self.started_at = time.monotonic()

    def end(self) -> None:
        """Record that the attempt's outcome is known, or that nobody needs the outcome any more."""
        self.is_settled = True
        self.ended_at = time.monotonic()

    def __repr__(self) -> str:
        return f"{self.task.name} (job {self.job.id}, attempt {self.job.number})"
