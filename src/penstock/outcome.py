"""The outcome of an attempt, and the next state of its job: the whole state machine.

A handler returns a value, or one of Done, Retry, Snooze, Cancel and Discard. The executor makes
the other outcomes. `decide` turns any outcome into a Transition. A Transition says after what delay
a job runs again, and not at what time, because the database owns time.
"""

from datetime import datetime, timedelta
from math import isnan
from random import Random
from typing import Any, Literal, Protocol, assert_never

import msgspec
from msgspec import Struct

from penstock.backoff import MAX_DELAY_S, Policy
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
# These reasons are not the job's fault, so it waits for as long as it takes.
UNLIMITED_PARKING = ("missing_resource", "no_process", "unmarked")

EXHAUSTED = "exhausted"
POISON = "poison"
DISCARDED = "discarded"
HANDLER = "handler"
REASON_LIMIT = 200

PARK_LIMIT_S = 86_400.0
MIN_PARK_DELAY_S = 10.0
MAX_PARK_DELAY_S = 600.0
PARK_JITTER = 0.1

_REQUIRED_FIELDS = frozenset({"kind", "type", "message", "traceback"})


# Outcomes that a handler may return


class Done(Struct, frozen=True):
    """Return this from a handler to complete the job. A plain return value does the same."""

    result: Any = None


class Retry(Struct, frozen=True, kw_only=True):
    """Return this from a handler if the attempt failed and the job should run again.

    The job runs again after `after` seconds. Without `after`, the task's retry policy says when.
    """

    after: float | timedelta | None = None
    error: str | None = None

    def __post_init__(self) -> None:
        if self.after is not None:
            _seconds("Retry.after", self.after)


class Snooze(Struct, frozen=True, repr_omit_defaults=True):
    """Return this from a handler if it is too early to run. The job runs again in `delay` seconds.

    The attempt is no failure, and does not count against `max_attempts`.
    """

    delay: float | timedelta
    reason: str | None = None

    def __post_init__(self) -> None:
        _seconds("Snooze.delay", self.delay)


class Cancel(Struct, frozen=True):
    """Return this from a handler if the work is no longer wanted. The job is cancelled."""

    reason: str | None = None


class Discard(Struct, frozen=True):
    """Return this from a handler if the work can never succeed. The job fails for good."""

    reason: str | None = None


# Outcomes that the executor makes


class Failed(Struct, frozen=True):
    """The handler raised an exception."""

    error: AttemptError
    retryable: bool = True
    after: float | None = None


class TimedOut(Struct, frozen=True):
    """The handler took longer than the job's timeout."""

    error: AttemptError


class Died(Struct, frozen=True):
    """The child process in which the job ran died. After `max_deaths` deaths the job fails."""

    error: AttemptError
    max_deaths: int


class Released(Struct, frozen=True):
    """The worker stops and gives the job back unfinished. This is no failure."""


class Parked(Struct, frozen=True):
    """This worker cannot run the job. The job is put back, to be tried again later.

    This is no failure.
    """

    reason: ParkedReason
    error: AttemptError | None = None


class Waiting(Struct, frozen=True):
    """The job waits for an event, which `reason` names. This is no failure."""

    reason: str


Returned = Done | Retry | Snooze | Cancel | Discard
Outcome = Returned | Failed | TimedOut | Died | Released | Parked | Waiting


def outcome_of(value: object) -> Returned:
    """Return the outcome that a handler's return value means."""
    return value if isinstance(value, Returned) else Done(value)


class Transition(Struct, frozen=True):
    """A job's next state. `delay` is how many seconds a job with state `scheduled` waits."""

    state: State
    reason: str | None = None
    delay: float = 0.0
    counts_failure: bool = False
    error: dict[str, Any] | None = None
    result: Any = None
    stuck: bool = False


class Attempted(Protocol):
    """The fields of a job that `decide` reads."""

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
    park_limit: float = PARK_LIMIT_S,
    park_shortest: float = MIN_PARK_DELAY_S,
) -> Transition:
    """Return the transition of `job` after `outcome`.

    `now` is only compared with `job.stuck_since`, so the worker's clock is good enough.
    """
    match outcome:
        case Done(result):
            return DONE if result is None else Transition(COMPLETED, result=result)
        case Snooze(delay, reason):
            text = None if reason is None else storable(str(reason), REASON_LIMIT)
            return _later(_seconds("Snooze.delay", delay), reason=text)
        case Released():
            return RELEASED
        case Waiting(reason):
            return Transition(BLOCKED, storable(reason, REASON_LIMIT))
        case Failed():
            return _failed(job, outcome, policy, rng)
        case TimedOut(error):
            return _failed(job, Failed(error), policy, rng)
        case Died(error, max_deaths):
            if job.deaths + 1 >= max_deaths:
                return Transition(FAILED, POISON, counts_failure=True, error=_stored(error))
            return _failed(job, Failed(error), policy, rng)
        case Retry():
            return _failed(job, _failure_of_retry(outcome), policy, rng)
        case Discard(reason):
            error = _handler_error("Discard", reason or "The handler discarded the job.")
            return _failed(job, Failed(error, retryable=False), policy, rng)
        case Cancel(reason):
            return Transition(CANCELLED, storable(str(reason or HANDLER), REASON_LIMIT))
        case Parked(reason, cause):
            return _parked(job, reason, cause, now, rng, park_limit, park_shortest)
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
    if stuck_for >= limit and reason not in UNLIMITED_PARKING:
        return Transition(FAILED, reason, error=_stored(error))
    delay = min(max(stuck_for, shortest), MAX_PARK_DELAY_S)
    delay *= 1.0 - PARK_JITTER * rng.random()
    # The error is stored the first time alone. Repeating it every ten minutes would fill the row.
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


def _failure_of_retry(retry: Retry) -> Failed:
    error = _handler_error("Retry", retry.error or "The handler asked to be run again.")
    after = None if retry.after is None else _seconds("Retry.after", retry.after)
    return Failed(error, after=after)


def _seconds(setting: str, value: float | timedelta) -> float:
    """Return a delay in seconds, at most MAX_DELAY_S, or raise BadArgument if it is no number."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if type(seconds) not in (int, float) or isnan(seconds):
        raise BadArgument(setting, value, "a number of seconds or a timedelta")
    return _bounded(seconds)


def _bounded(seconds: float) -> float:
    return min(max(seconds, 0.0), MAX_DELAY_S)


def _handler_error(kind: str, message: str) -> AttemptError:
    # A handler may pass an exception as the message.
    return AttemptError(type=kind, message=storable(str(message), MESSAGE_LIMIT))


def _stored(error: AttemptError | None) -> dict[str, Any] | None:
    """Return the error as JSON. The database adds the attempt, the worker and the times."""
    if error is None:
        return None
    stored: dict[str, Any] = msgspec.to_builtins(error)
    return {name: value for name, value in stored.items() if value or name in _REQUIRED_FIELDS}
