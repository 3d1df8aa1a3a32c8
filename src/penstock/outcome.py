"""What an attempt came to, and what becomes of its job: the whole state machine.

A handler returns a value or one of Done, Retry, Snooze, Cancel, Discard; the executor makes the
others. `decide` turns any of them into a Transition, which carries delays and never times: the
database owns time.
"""

from datetime import datetime, timedelta
from math import isnan
from random import Random
from typing import Any, Literal, Protocol, assert_never

import msgspec
from msgspec import Struct

from penstock.backoff import LONGEST, Policy
from penstock.errors import BadArgument
from penstock.job import (
    BLOCKED,
    CANCELLED,
    COMPLETED,
    FAILED,
    MESSAGE_LIMIT,
    READY,
    SCHEDULED,
    AttemptError,
    State,
    storable,
)

ParkedReason = Literal[
    "unknown_task", "bad_arguments", "missing_resource", "no_process", "unmarked"
]
# Not the job's fault: it waits for as long as it takes.
OUTSIDE = ("missing_resource", "no_process", "unmarked")

EXHAUSTED = "exhausted"
POISON = "poison"
DISCARDED = "discarded"
HANDLER = "handler"
REASON_LIMIT = 200

PARK_LIMIT = 86_400.0
PARK_SHORTEST = 10.0
PARK_LONGEST = 600.0
PARK_JITTER = 0.1

_ALWAYS = frozenset({"kind", "type", "message", "traceback"})


# What a handler may return


class Done(Struct, frozen=True):
    """The work is done."""

    result: Any = None


class Retry(Struct, frozen=True, kw_only=True):
    """This attempt failed; try again after `after` seconds, or when the task's policy says."""

    after: float | timedelta | None = None
    error: str | None = None

    def __post_init__(self) -> None:
        if self.after is not None:
            _seconds("Retry.after", self.after)


class Snooze(Struct, frozen=True, repr_omit_defaults=True):
    """Nothing failed, it is only too early: run again in `delay` seconds. Counts as nothing."""

    delay: float | timedelta
    reason: str | None = None

    def __post_init__(self) -> None:
        _seconds("Snooze.delay", self.delay)


class Cancel(Struct, frozen=True):
    """The work is no longer wanted."""

    reason: str | None = None


class Discard(Struct, frozen=True):
    """The work can never succeed: fail now, whatever attempts are left."""

    reason: str | None = None


# What the executor makes


class Failed(Struct, frozen=True):
    """The handler raised."""

    error: AttemptError
    retryable: bool = True
    after: float | None = None


class TimedOut(Struct, frozen=True):
    """The handler took longer than the job's timeout."""

    error: AttemptError


class Died(Struct, frozen=True):
    """The child process died in which the job ran; the job may do so `most` times."""

    error: AttemptError
    most: int


class Released(Struct, frozen=True):
    """A shutdown or deploy gives the job back unfinished. Counts as nothing."""


class Parked(Struct, frozen=True):
    """This worker cannot run the job: put back until a worker can, visibly. Counts as nothing."""

    reason: ParkedReason
    error: AttemptError | None = None


class Waiting(Struct, frozen=True):
    """The job waits for an event; `reason` says for which. Counts as nothing."""

    reason: str


Returned = Done | Retry | Snooze | Cancel | Discard
Outcome = Returned | Failed | TimedOut | Died | Released | Parked | Waiting


def outcome_of(value: object) -> Returned:
    """Return the outcome that a handler's return value means."""
    return value if isinstance(value, Returned) else Done(value)


class Transition(Struct, frozen=True):
    """Where a job goes from here. A `delay` of 0 means ready at once."""

    state: State
    reason: str | None = None
    delay: float = 0.0
    counts_failure: bool = False
    error: dict[str, Any] | None = None
    result: Any = None
    stuck: bool = False


class Attempted(Protocol):
    """What `decide` needs to know of a job."""

    @property
    def failures(self) -> int: ...
    @property
    def max_attempts(self) -> int: ...
    @property
    def deaths(self) -> int: ...
    @property
    def stuck_since(self) -> datetime | None: ...


DONE = Transition(COMPLETED)
RELEASED = Transition(READY)


def decide(
    job: Attempted,
    outcome: Outcome,
    *,
    policy: Policy,
    now: datetime,
    rng: Random,
    park_limit: float = PARK_LIMIT,
    park_shortest: float = PARK_SHORTEST,
) -> Transition:
    """Return what becomes of `job` after `outcome`.

    `now` is only compared with `job.stuck_since`, so a worker's clock is good enough.
    """
    match outcome:
        case Done(result):
            return DONE if result is None else Transition(COMPLETED, result=result)
        case Snooze(delay, reason):
            said = None if reason is None else storable(str(reason), REASON_LIMIT)
            return _later(_seconds("Snooze.delay", delay), reason=said)
        case Released():
            return RELEASED
        case Waiting(reason):
            return Transition(BLOCKED, storable(reason, REASON_LIMIT))
        case Failed():
            return _failed(job, outcome, policy, rng)
        case TimedOut(error):
            return _failed(job, Failed(error), policy, rng)
        case Died(error, most):
            if job.deaths + 1 >= most:
                return Transition(FAILED, POISON, counts_failure=True, error=_stored(error))
            return _failed(job, Failed(error), policy, rng)
        case Retry():
            return _failed(job, _asked(outcome), policy, rng)
        case Discard(reason):
            error = _said("Discard", reason or "The handler discarded the job.")
            return _failed(job, Failed(error, retryable=False), policy, rng)
        case Cancel(reason):
            return Transition(CANCELLED, storable(str(reason or HANDLER), REASON_LIMIT))
        case Parked(why, cause):
            return _parked(job, why, cause, now, rng, park_limit, park_shortest)
        case _:
            assert_never(outcome)


def _failed(job: Attempted, failed: Failed, policy: Policy, rng: Random) -> Transition:
    failures = job.failures + 1
    error = _stored(failed.error)
    if not failed.retryable:
        return Transition(FAILED, DISCARDED, counts_failure=True, error=error)
    if failures >= job.max_attempts:
        return Transition(FAILED, EXHAUSTED, counts_failure=True, error=error)
    if failed.after is None or isnan(failed.after):
        delay = policy.delay(failures, rng)
    else:
        delay = failed.after
    return _later(_bounded(delay), counts_failure=True, error=error)


def _parked(
    job: Attempted,
    reason: ParkedReason,
    error: AttemptError | None,
    now: datetime,
    rng: Random,
    limit: float,
    shortest: float,
) -> Transition:
    stuck_for = (now - job.stuck_since).total_seconds() if job.stuck_since else 0.0
    if stuck_for >= limit and reason not in OUTSIDE:
        return Transition(FAILED, reason, error=_stored(error))
    delay = min(max(stuck_for, shortest), PARK_LONGEST)
    delay *= 1.0 - PARK_JITTER * rng.random()
    # The first time says why; to repeat it every ten minutes would only fill the row.
    first = _stored(error) if job.stuck_since is None else None
    return _later(delay, reason=reason, error=first, stuck=True)


def _later(
    delay: float,
    *,
    reason: str | None = None,
    counts_failure: bool = False,
    error: dict[str, Any] | None = None,
    stuck: bool = False,
) -> Transition:
    state: State = SCHEDULED if delay > 0 else READY
    return Transition(state, reason, delay, counts_failure, error, None, stuck)


def _asked(retry: Retry) -> Failed:
    error = _said("Retry", retry.error or "The handler asked to be run again.")
    after = None if retry.after is None else _seconds("Retry.after", retry.after)
    return Failed(error, after=after)


def _seconds(setting: str, value: float | timedelta) -> float:
    """Return seconds as a handler gave them: too many are cut, what is no number is refused."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if type(seconds) not in (int, float) or isnan(seconds):
        raise BadArgument(setting, value, "a number of seconds or a timedelta")
    return _bounded(seconds)


def _bounded(seconds: float) -> float:
    return min(max(seconds, 0.0), LONGEST)


def _said(kind: str, message: str) -> AttemptError:
    # A handler may well give the exception itself.
    return AttemptError(type=kind, message=storable(str(message), MESSAGE_LIMIT))


def _stored(error: AttemptError | None) -> dict[str, Any] | None:
    """Return the error as the settle stores it, which adds the attempt, the worker and the time."""
    if error is None:
        return None
    stored: dict[str, Any] = msgspec.to_builtins(error)
    return {name: value for name, value in stored.items() if value or name in _ALWAYS}
