"""Retry policies: how long a failed job waits before its next attempt.

`policy.delay(failures, rng)` returns the seconds to wait after that many failures. Jitter only
shortens a delay, so `cap` is never exceeded.

    Exponential()                             30, 60, 120, 240, 480, 600, 600 … seconds
    Exponential(base=60, cap=86_400)          1, 2, 4, 8 … minutes, at most a day
    Fixed(5)                                  5, 5, 5 …
    Listed([1, 5, 30])                        1, 5, 30, 30 …
    Function(lambda failures: failures ** 2)  1, 4, 9 …
"""

import logging
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Protocol, runtime_checkable

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from penstock.errors import ConfigError

MAX_DELAY_S = 366 * 86_400.0
SECONDS_FORM = f"a number of seconds from 0 to {MAX_DELAY_S:.0f}"
STORABLE_FORM = "Exponential, Fixed or Listed; a function can only be given to the task itself"

logger = logging.getLogger(__name__)


@runtime_checkable
class Policy(Protocol):
    """Anything with a method `delay`, which says how long a failed job waits."""

    def delay(self, failures: int, rng: Random) -> float:
        """Return the seconds to wait after `failures` failed attempts."""
        ...


class Exponential(Struct, frozen=True, kw_only=True, tag="exponential", tag_field="kind"):
    """Wait `base` seconds, and `factor` times as long after each further failure, up to `cap`.

    Each delay is shortened by a random part of it, up to the fraction `jitter`, so that jobs which
    failed together do not all run again together.
    """

    base: float = 30.0
    factor: float = 2.0
    cap: float = 600.0
    jitter: float = 0.1

    def __post_init__(self) -> None:
        _check_seconds("retry.base", self.base)
        _check_seconds("retry.cap", self.cap)
        _check_number("retry.factor", self.factor, 1, 1000, "a number from 1 to 1000")
        _check_jitter(self.jitter)

    def delay(self, failures: int, rng: Random) -> float:
        try:
            grown = self.base * self.factor ** max(failures - 1, 0)
        except OverflowError:
            grown = self.cap
        return _jittered(min(grown, self.cap), self.jitter, rng)


class Fixed(Struct, frozen=True, tag="fixed", tag_field="kind"):
    """Wait the same number of seconds after each failure."""

    seconds: float
    jitter: float = 0.0

    def __post_init__(self) -> None:
        _check_seconds("retry.seconds", self.seconds)
        _check_jitter(self.jitter)

    def delay(self, failures: int, rng: Random) -> float:
        return _jittered(self.seconds, self.jitter, rng)


class Listed(Struct, frozen=True, tag="listed", tag_field="kind"):
    """Wait the listed seconds, one entry for each failure. The last entry repeats."""

    seconds: Sequence[float]
    jitter: float = 0.0

    def __post_init__(self) -> None:
        if isinstance(self.seconds, str | bytes) or not isinstance(self.seconds, Sequence):
            raise ConfigError("retry.seconds", self.seconds, "a list of numbers of seconds")
        if not self.seconds:
            raise ConfigError("retry.seconds", self.seconds, "a list with at least one delay")
        for seconds in self.seconds:
            _check_seconds("retry.seconds", seconds)
        _check_jitter(self.jitter)
        force_setattr(self, "seconds", tuple(self.seconds))

    def delay(self, failures: int, rng: Random) -> float:
        index = min(max(failures - 1, 0), len(self.seconds) - 1)
        return _jittered(self.seconds[index], self.jitter, rng)


class Function(Struct, frozen=True):
    """Call your function with the number of failures. It returns the seconds to wait.

    A function cannot be stored with a job, so pass this policy to the task. If the function raises
    or returns no valid delay, the default policy is used, so that the attempt is settled in any
    case.
    """

    fn: Callable[[int], float]

    def __post_init__(self) -> None:
        if not callable(self.fn):
            raise ConfigError("retry.fn", self.fn, "a function of the number of failures")

    def delay(self, failures: int, rng: Random) -> float:
        try:
            seconds = float(self.fn(failures))
            _check_seconds("the retry function's answer", seconds)
        except Exception:
            logger.exception(
                "A retry function raised an error or returned no valid delay. The default policy "
                "is used instead."
            )
            return Exponential().delay(failures, rng)
        return seconds


Storable = Exponential | Fixed | Listed


def dump_policy(policy: Policy) -> dict[str, Any]:
    """Return the policy as the JSON object that is stored with a job."""
    if not isinstance(policy, Storable):
        raise ConfigError("retry", policy, STORABLE_FORM)
    stored: dict[str, Any] = msgspec.to_builtins(policy)
    return stored


def load_policy(stored: object) -> Storable:
    """Return the policy that was stored with a job."""
    try:
        policy: Storable = msgspec.convert(stored, Storable)
    except msgspec.ValidationError as error:
        raise ConfigError("retry", stored, f"a stored policy ({error})") from None
    return policy


def _jittered(seconds: float, jitter: float, rng: Random) -> float:
    return seconds * (1.0 - jitter * rng.random()) if jitter else float(seconds)


def _check_seconds(setting: str, value: object) -> None:
    _check_number(setting, value, 0, MAX_DELAY_S, SECONDS_FORM)


def _check_jitter(value: object) -> None:
    _check_number("retry.jitter", value, 0, 1, "a share from 0 to 1")


def _check_number(setting: str, value: object, low: float, high: float, allowed: str) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not low <= value <= high:  # type: ignore[operator]
        raise ConfigError(setting, value, allowed)
