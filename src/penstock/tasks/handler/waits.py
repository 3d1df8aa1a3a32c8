"""Suspends a job whose handler sleeps, waits for an event, or polls an outside operation."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from penstock.backoff import Fixed, Policy
from penstock.errors import ConfigError
from penstock.outcome import Snooze, Waiting
from penstock.tasks.options import CHECKS, check_whole_number, seconds


class Suspended(BaseException):
    """Raised in a handler to end its attempt, because the job must wait. Do not catch it.

    The attempt does not count as a failure. This class is no Exception on purpose: otherwise an
    `except Exception`, or a library that retries all errors, would swallow it, and the handler
    would go on too early. `finally` blocks run.
    """

    def __init__(self, outcome: Snooze | Waiting, message: str) -> None:
        self.outcome = outcome
        super().__init__(message)


def suspension(error: BaseException) -> Suspended | None:
    """Return the error if it is a Suspended, else None.

    Of an exception group, the Suspended with the longest wait is returned, or None if the group
    contains any other error.
    """
    if not isinstance(error, BaseExceptionGroup):
        return error if isinstance(error, Suspended) else None
    waits = [suspension(inner) for inner in error.exceptions]
    known = [wait for wait in waits if wait is not None]
    return max(known, key=_delay) if len(known) == len(waits) else None


def _delay(wait: Suspended) -> float:
    # An event is kept for the job whenever it comes. Only a snooze wakes the job in time.
    outcome = wait.outcome
    return -1.0 if isinstance(outcome, Waiting) else float(outcome.delay)  # type: ignore[arg-type]


def event_name(value: Any) -> str:
    """Return the name of an event, or raise ConfigError if it is not allowed."""
    return str(CHECKS["requested_by"]("event", value or ""))


def event_wait(name: Any, timeout: float | timedelta | None) -> tuple[str, float | None]:
    """Return the checked name of an event, and how many seconds to wait for it.

    None means to wait without a limit. Raises ConfigError for a value that is not allowed.
    """
    return event_name(name), None if timeout is None else seconds("timeout", timeout)


POLL_JITTER: Final = 0.1
MAX_POLLS: Final = 1_000_000


class Pending(Struct, frozen=True):
    """Return this from the check of `ctx.poll` if the operation is not over.

    `after` is how many seconds to wait before the next poll. Without it, the poll's interval is
    used.
    """

    after: float | timedelta | None = None

    def __post_init__(self) -> None:
        if self.after is not None:
            seconds("after", self.after)


class PollSettings(Struct, frozen=True):
    """How often to poll an operation, how many times at most, and for how many seconds in all."""

    every: float | timedelta | Policy = 10.0
    most: int | None = None
    within: float | timedelta | None = None

    def __post_init__(self) -> None:
        self.policy  # noqa: B018
        if self.most is not None:
            check_whole_number("most", self.most, 1, MAX_POLLS)
        if self.within is not None and not seconds("within", self.within):
            raise ConfigError("within", self.within, "more than 0 seconds, or None for no limit")

    @property
    def policy(self) -> Policy:
        if isinstance(self.every, Policy):
            return self.every
        return Fixed(seconds("every", self.every), jitter=POLL_JITTER)

    @property
    def time_limit(self) -> float:
        """The number of seconds in which to poll, counted from the first poll."""
        return float("inf") if self.within is None else seconds("within", self.within)

    def is_over(self, polls: int, age: float) -> bool:
        """Return whether to stop polling, after `polls` polls and `age` seconds after the first."""
        return (self.most is not None and polls >= self.most) or age >= self.time_limit

    def delay(self, polls: int, age: float, pending: Pending, rng: Random) -> float:
        """Return how many seconds to wait before the next poll, at most until the time limit."""
        if pending.after is None:
            delay = self.policy.delay(polls, rng)
        else:
            delay = seconds("after", pending.after)
        return min(delay, max(self.time_limit - age, 0.0))


class PollState(Struct, frozen=True, omit_defaults=True):
    """The state of polling one operation, which is stored as a step of the job."""

    polls: int = 0
    answer: Raw | UnsetType = UNSET
    timed_out: bool = False

    @classmethod
    def read(cls, text: str | None) -> PollState:
        return cls() if text is None else msgspec.json.decode(text, type=cls)

    @property
    def text(self) -> str:
        return msgspec.json.encode(self).decode()


def as_pending(value: Any) -> Pending | None:
    """Return a check's value as a Pending, or None if the value is the operation's answer."""
    if value is None:
        return Pending()
    return value if isinstance(value, Pending) else None
