"""How an attempt ends whose handler waits: asleep, for an event, or for an outside operation."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from penstock.backoff import Fixed, Policy
from penstock.errors import ConfigError
from penstock.outcome import Snooze, Waiting
from penstock.tasks.options import CHECKS, seconds, whole


class Suspended(BaseException):
    """Ends an attempt whose job must wait, uncounted; `outcome` says for what.

    Not an Exception: `except Exception` around a call, or a library that tries again whatever
    fails, would swallow it, and the handler would go on without what it waits for. `finally` runs.
    """

    def __init__(self, outcome: Snooze | Waiting, message: str) -> None:
        self.outcome = outcome
        super().__init__(message)


def suspension(error: BaseException) -> Suspended | None:
    """The longest wait that an error stands for; None if it, or one of its group, is another."""
    if not isinstance(error, BaseExceptionGroup):
        return error if isinstance(error, Suspended) else None
    waits = [suspension(one) for one in error.exceptions]
    known = [wait for wait in waits if wait is not None]
    return max(known, key=_length) if len(known) == len(waits) else None


def _length(wait: Suspended) -> float:
    # An event is kept for the job, whenever it comes; nothing else would wake it in time.
    outcome = wait.outcome
    return -1.0 if isinstance(outcome, Waiting) else float(outcome.delay)  # type: ignore[arg-type]


def event_name(value: Any) -> str:
    """Return a name that an event can have."""
    return str(CHECKS["requested_by"]("event", value or ""))


def event_wait(name: Any, timeout: float | timedelta | None) -> tuple[str, float | None]:
    """Return the name of an event and the seconds to wait for it, both checked."""
    return event_name(name), None if timeout is None else seconds("timeout", timeout)


JITTER: Final = 0.1
MOST_POLLS: Final = 1_000_000


class Pending(Struct, frozen=True):
    """What a check returns if the answer is not there yet; ask again `after` so many seconds."""

    after: float | timedelta | None = None

    def __post_init__(self) -> None:
        if self.after is not None:
            seconds("after", self.after)


class Polling(Struct, frozen=True):
    """How often to ask, how many times at most, and for how long from the first time on."""

    every: float | timedelta | Policy = 10.0
    most: int | None = None
    within: float | timedelta | None = None

    def __post_init__(self) -> None:
        self.policy  # noqa: B018
        if self.most is not None:
            whole("most", self.most, 1, MOST_POLLS)
        if self.within is not None and not seconds("within", self.within):
            raise ConfigError("within", self.within, "more than 0 seconds, or None for no limit")

    @property
    def policy(self) -> Policy:
        if isinstance(self.every, Policy):
            return self.every
        return Fixed(seconds("every", self.every), jitter=JITTER)

    @property
    def patience(self) -> float:
        """For how many seconds to ask, from the first time on."""
        return float("inf") if self.within is None else seconds("within", self.within)

    def is_over(self, polls: int, age: float) -> bool:
        return (self.most is not None and polls >= self.most) or age >= self.patience

    def delay(self, polls: int, age: float, pending: Pending, rng: Random) -> float:
        """How long until the next poll; the last is at the end of the time for it."""
        if pending.after is None:
            delay = self.policy.delay(polls, rng)
        else:
            delay = seconds("after", pending.after)
        return min(delay, max(self.patience - age, 0.0))


class Polls(Struct, frozen=True, omit_defaults=True):
    """How far the polls of one operation are, as it is kept."""

    polls: int = 0
    answer: Raw | UnsetType = UNSET
    timed_out: bool = False

    @classmethod
    def read(cls, text: str | None) -> Polls:
        return cls() if text is None else msgspec.json.decode(text, type=cls)

    @property
    def text(self) -> str:
        return msgspec.json.encode(self).decode()


def pending_of(value: Any) -> Pending | None:
    """What a check returned, if it is no answer."""
    if value is None:
        return Pending()
    return value if isinstance(value, Pending) else None
