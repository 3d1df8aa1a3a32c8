"""Attempts that wait for a child process or run in one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from penstock.isolation.death import Death, shorten_trace
from penstock.job import TRACEBACK_LIMIT, AttemptError, storable
from penstock.outcome import Died, TimedOut
from penstock.tasks.settings import Process
from penstock.worker.attempt import Attempt
from penstock.worker.children.channel import ChildConnection
from penstock.worker.children.messages import AttemptEnded, StartAttempt


class NoProcess(Exception):
    """This worker cannot run the attempt in a child process. The message says why."""


class NotStarted(Exception):
    """No child process has begun the attempt.

    No child was free for a long time, the assigned child died because of another job, or the worker
    is stopping.
    """


class LostJob(Exception):
    """The job was taken back before the attempt began."""


# How a child's attempt ended; None if it was stopped and has no outcome.
ChildReply = AttemptEnded | Death | None
NO_REPLY: Final = Exception("The child has not replied yet.")


@dataclass(eq=False, slots=True)
class Assignment:
    """An attempt that waits for a child process or runs in one."""

    attempt: Attempt
    process: Process
    rated_keys: Sequence[str]
    future: asyncio.Future[None]
    waiting_since: float
    # An attempt with a timeout starts before this or is given back. The leader counts its timeout
    # from the claim, with a grace that has room for this wait and for a Process's grace.
    start_before: float
    reply: ChildReply | Exception = NO_REPLY
    assigned_at: float = 0.0
    child: ChildConnection | None = None
    timer: asyncio.TimerHandle | None = None

    @property
    def has_reply(self) -> bool:
        return self.reply is not NO_REPLY

    def is_for(self, token: UUID) -> bool:
        """Return whether a message with this token is about this attempt."""
        return self.attempt.job.token == token

    def end(self, reply: ChildReply | Exception) -> None:
        """Set the reply, unless there is one already.

        The first reply stands, because a waiter that is being stopped may not have read it yet.
        """
        if not self.has_reply:
            self.reply = reply
            if not self.future.done():
                self.future.set_result(None)

    def result(self) -> ChildReply:
        """Return the child's reply. If there is none, raise the exception that says why."""
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply

    def cancel_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()

    def to_message(self) -> StartAttempt:
        """Return the message that tells the child to run this attempt."""
        job, process = self.attempt.job, self.process
        row = job.row
        grace = process.grace_seconds
        timeout = None if job.timeout is None else job.timeout + grace
        seconds = process.seconds
        is_timeout = timeout is not None and (seconds is None or timeout < seconds)
        return StartAttempt(
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
            list(self.rated_keys),
            (timeout if is_timeout else seconds) or 0.0,
            process.memory or 0,  # type: ignore[arg-type]
            is_timeout,
            0.0 if timeout is None else self.start_before,
        )


def outcome_of_death(attempt: Attempt, process: Process, death: Death) -> Died | TimedOut:
    """Return the outcome of an attempt whose child died."""
    is_timeout = death.cause == "timeout"
    message = str(death)
    error = AttemptError(
        kind="timeout" if is_timeout else "death",
        type=death.name,
        message=f"{message[:1].upper()}{message[1:]}.",
        traceback=storable(shorten_trace(death.trace), TRACEBACK_LIMIT),
        attempt=attempt.job.number,
    )
    return TimedOut(error) if is_timeout else Died(error, process.deaths)
