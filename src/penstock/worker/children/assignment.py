"""An attempt that waits for a child process, or has one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from penstock.isolation.death import Death, shortened
from penstock.job import TRACEBACK_LIMIT, AttemptError, storable
from penstock.outcome import Died, TimedOut
from penstock.tasks.settings import Process
from penstock.worker.attempt import Attempt
from penstock.worker.children.channel import Child
from penstock.worker.children.messages import Ended, Order


class NoProcess(Exception):
    """No child process can be had here; says why."""


class NotBegun(Exception):
    """No child has begun it: none was free for long, or the one that got it died of another; or
    the worker ends, and its children with it."""


class LostJob(Exception):
    """The job was taken from this attempt before it began."""


# What a child came to; None if nobody asks.
Answered = Ended | Death | None
UNANSWERED: Final = Exception("Nothing has come of it yet.")


@dataclass(eq=False, slots=True)
class Assignment:
    """An attempt that waits for a child, or has one."""

    attempt: Attempt
    process: Process
    rated: Sequence[str]
    future: asyncio.Future[None]
    since: float
    # If the attempt has a timeout, it begins before then or is given back: from outside its timeout
    # counts from the claim, with a grace that has room for this and for a Process's grace.
    begin_before: float
    answer: Answered | Exception = UNANSWERED
    given: float = 0.0
    child: Child | None = None
    timer: asyncio.TimerHandle | None = None

    @property
    def is_answered(self) -> bool:
        return self.answer is not UNANSWERED

    def is_of(self, token: UUID) -> bool:
        """Whether this is the attempt that somebody in a child speaks for."""
        return self.attempt.job.token == token

    def end(self, answer: Answered | Exception) -> None:
        """Say what came of it, the first time; also if the one who waits is told to stop just now,
        and has not heard it yet."""
        if not self.is_answered:
            self.answer = answer
            if not self.future.done():
                self.future.set_result(None)

    def result(self) -> Answered:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def cancel_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()

    def order(self) -> Order:
        """What the child is told to do."""
        job, process = self.attempt.job, self.process
        row = job.row
        grace = process.grace_seconds
        timeout = None if job.timeout is None else job.timeout + grace
        seconds = process.seconds
        is_timeout = timeout is not None and (seconds is None or timeout < seconds)
        return Order(
            job.id,
            job.token,
            job.task,
            job.queue,
            job.args,
            row["args_version"],
            row["attempt"],
            row["failures"],
            row["max_attempts"],
            row["losses"],
            job.timeout,
            row["lane"],
            row["priority"],
            row["tenant"],
            row["ready_at"],
            row["created_at"],
            job.batch,
            row["extra"] if (trace := self.attempt.trace) is None else trace.carried(row["extra"]),
            list(self.rated),
            (timeout if is_timeout else seconds) or 0.0,
            process.memory or 0,  # type: ignore[arg-type]
            is_timeout,
            0.0 if timeout is None else self.begin_before,
        )


def outcome_of(attempt: Attempt, process: Process, death: Death) -> Died | TimedOut:
    """What it means for an attempt that its child died."""
    is_timeout = death.cause == "timeout"
    message = str(death)
    error = AttemptError(
        kind="timeout" if is_timeout else "death",
        type=death.name,
        message=f"{message[:1].upper()}{message[1:]}.",
        traceback=storable(shortened(death.trace), TRACEBACK_LIMIT),
        attempt=attempt.job.number,
    )
    return TimedOut(error) if is_timeout else Died(error, process.deaths)
