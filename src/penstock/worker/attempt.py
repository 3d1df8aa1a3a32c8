"""One claimed job while this worker runs it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Literal

from penstock.connect.tracing import Trace
from penstock.store import ClaimedJob
from penstock.tasks import Task

if TYPE_CHECKING:
    from penstock.worker.claim.queue import QueueState

# "refused": the fence said that the job is not this attempt's; the settle finds out if that holds.
StopReason = Literal["timeout", "cancelled", "lost", "refused", "shutdown"]

# A timeout that comes so much too late was kept waiting with the whole event loop.
LATE_S = 1.0


class Attempt:
    """One claimed job while this worker runs it."""

    __slots__ = (
        "began",
        "completed",
        "ended",
        "future",
        "has_begun",
        "is_settled",
        "job",
        "overdue",
        "state",
        "stopped",
        "task",
        "timer",
        "trace",
    )

    def __init__(self, job: ClaimedJob, task: Task[Any, Any], state: QueueState) -> None:
        self.job = job
        self.state = state
        self.task = task
        self.began = time.monotonic()
        self.ended: float | None = None
        self.future: asyncio.Future[Any] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.stopped: StopReason | None = None
        self.overdue = False
        # Not while a suspect waits for its mark, or if no child process had time for it.
        self.has_begun = True
        self.is_settled = False
        # Set by ctx.complete: the handler's own transaction settles this attempt.
        self.completed = False
        # What somebody who follows jobs has of it.
        self.trace: Trace | None = None

    @property
    def seconds(self) -> float:
        """How long the attempt took, or has taken so far."""
        return (self.ended or time.monotonic()) - self.began

    @property
    def is_doubtful(self) -> bool:
        """Whether its job may have ended or gone on without this worker: the settle finds out."""
        return self.completed or self.stopped == "refused"

    def stop(self, reason: StopReason) -> None:
        """Tell the handler to stop: an async one is cancelled, a sync one finds its flag set."""
        if self.stopped is None:
            self.stopped = reason
        elif self.stopped != "refused":
            return
        # Also one that the fence refused, which so far has only been told.
        if self.future is not None and not self.future.done():
            self.future.cancel()

    def limit(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        """Stop it as timed out after so many seconds."""
        self.timer = loop.call_later(seconds, self._time_out, loop)

    def _time_out(self, loop: asyncio.AbstractEventLoop) -> None:
        """If the process stood still (SIGSTOP, a suspended laptop), or another handler blocked the
        loop, this one could not go on meanwhile: it gets that time back, once."""
        assert self.timer is not None
        assert self.job.timeout is not None
        late = loop.time() - self.timer.when()
        if late > LATE_S:
            again = min(late, self.job.timeout)
            self.timer = loop.call_later(again, self.stop, "timeout")
        else:
            self.stop("timeout")

    def begin(self) -> None:
        """It was not to begin before something else was done, and begins now."""
        self.has_begun = True
        self.began = time.monotonic()

    def end(self) -> None:
        """Its outcome is known, or nobody asks for it any more."""
        self.is_settled = True
        self.ended = time.monotonic()

    def __repr__(self) -> str:
        return f"{self.task.name} (job {self.job.id}, attempt {self.job.number})"
