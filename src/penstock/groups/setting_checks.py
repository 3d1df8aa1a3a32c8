"""Check settings. Each check returns the value as it is stored, or raises ConfigError."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from penstock.errors import ConfigError
from penstock.rate import per_second
from penstock.tasks.options import QUEUE_NAME, check_whole_number, limit_key, seconds
from penstock.tasks.settings import TASK_NAME
from penstock.windows import Windows

MAX_WEIGHT: Final = 1000
MAX_SLOTS: Final = 1_000_000
MAX_BURST: Final = 1e12
LANE_KEY: Final = re.compile(r"tenant|task|subject|requested_by|(?:args|meta)\..+")
# Keys that Penstock derives itself: their form, and which names they may begin with.
KEYS: Final = {
    "queue": ("queue:NAME", QUEUE_NAME),
    "lane": ("lane:QUEUE:LANE", QUEUE_NAME),
    "task": ("task:NAME", TASK_NAME),
}


def changed(**settings: tuple[Any, Callable[[str, Any], Any]]) -> dict[str, Any]:
    """Check and return the settings that change. `...` leaves a setting as it is."""
    return {
        name: check(name, value) for name, (value, check) in settings.items() if value is not ...
    }


def yes_or_no(setting: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(setting, value, "True or False")
    return value


def duration(setting: str, value: Any) -> float | None:
    if value is None:
        return None
    if not (length := seconds(setting, value)):
        raise ConfigError(setting, value, "more than 0 seconds, or none")
    return length


def windows(setting: str, value: Any) -> dict[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, Windows):
        raise ConfigError(
            setting, value, 'Windows("22:00-06:00", timezone="Europe/Berlin") or None'
        )
    return value.stored()


def lane_key(setting: str, value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not LANE_KEY.fullmatch(value):
        raise ConfigError(
            setting, value, "tenant, task, subject, requested_by, args.NAME or meta.NAME"
        )
    return limit_key(setting, value)


def lane(value: Any) -> None:
    """Check the name of a lane. Jobs without a value for the lane key are in the lane ""."""
    if value != "":
        limit_key("lane", value)


def weight(setting: str, value: Any) -> int:
    return check_whole_number(setting, value, 1, MAX_WEIGHT)


def priority(setting: str, value: Any) -> int:
    return check_whole_number(setting, value, -100, 100)


def key(value: Any) -> None:
    """Check that a text can be the limit key of a job, or a pattern for such keys."""
    text = limit_key("key", value)
    prefix = text.removesuffix("*")
    if "*" in prefix:
        raise ConfigError(
            "key", value, "a key with at most one *, at its end, for every key with that beginning"
        )
    kind, separator, rest = prefix.partition(":")
    if not separator or kind not in KEYS:
        return
    form, names = KEYS[kind]
    name, has_lane, _ = rest.partition(":") if kind == "lane" else (rest, True, "")
    is_pattern = prefix != text
    if not ((is_pattern and not rest) or (names.fullmatch(name) and (is_pattern or has_lane))):
        raise ConfigError("key", value, f"{form}, or its beginning followed by *, such as {kind}:*")


def slots(setting: str, value: Any) -> int | None:
    return None if value is None else check_whole_number(setting, value, 0, MAX_SLOTS)


def rate(setting: str, value: Any) -> float | None:
    return None if value is None else per_second(setting, value)


def burst(setting: str, value: Any) -> float | None:
    if value is None:
        return None
    if type(value) not in (int, float) or not 0 < value <= MAX_BURST:
        raise ConfigError(setting, value, "a number above 0")
    return float(value)


def plan(setting: str, value: Any) -> str | None:
    return None if value is None else limit_key(setting, value)
