"""Rates: a number per second, or text such as `500/min`."""

from __future__ import annotations

import re
from typing import Any, Final

from penstock.errors import ConfigError

ALLOWED: Final = "a number per second above 0, or text such as '10/s', '500/min' or '2000/hour'"
MAX_RATE: Final = 1e9
_SHORT_UNITS: Final = {"s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60}
_LONG_UNITS: Final = {"h": 3600, "hour": 3600, "d": 86_400, "day": 86_400}
_UNITS: Final = _SHORT_UNITS | _LONG_UNITS
_RATE: Final = re.compile(r"(\d+(?:\.\d+)?)(?: ?/ ?([a-z]+))?", re.ASCII)


def per_second(setting: str, value: Any) -> float:
    """Return the rate per second that a number or a text stands for, or raise ConfigError."""
    number: Any = _parse(value) if isinstance(value, str) else value
    if type(number) not in (int, float) or not 0 < number <= MAX_RATE:
        raise ConfigError(setting, value, ALLOWED)
    return float(number)


def as_text(rate: float) -> str:
    """Return a rate as text, in the shortest unit in which it is a whole number: `500/min`."""
    for seconds, unit in ((1, "s"), (60, "min"), (3600, "hour"), (86_400, "day")):
        number = rate * seconds
        if number >= 1 and abs(number - round(number)) < 1e-9 * number:
            return f"{round(number)}/{unit}"
    return f"{rate:.3g}/s" if rate >= 1 else f"{rate * 3600:.3g}/hour"


def _parse(text: str) -> float | None:
    match = _RATE.fullmatch(text.strip().lower())
    seconds = _UNITS.get(match[2] or "s") if match else None
    return float(match[1]) / seconds if match and seconds else None
