"""How often something may happen: a number per second, or as people write it."""

from __future__ import annotations

import re
from typing import Any, Final

from penstock.errors import ConfigError

ALLOWED: Final = "a number per second above 0, or text such as '10/s', '500/min' or '2000/hour'"
HIGHEST: Final = 1e9
_UNITS: Final = {"s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60}
_LONGER: Final = {"h": 3600, "hour": 3600, "d": 86_400, "day": 86_400}
_RATE: Final = re.compile(r"(\d+(?:\.\d+)?)(?: ?/ ?([a-z]+))?", re.ASCII)


def per_second(setting: str, given: Any) -> float:
    """The rate per second that a number or a text means."""
    number: Any = _parse(given) if isinstance(given, str) else given
    if type(number) not in (int, float) or not 0 < number <= HIGHEST:
        raise ConfigError(setting, given, ALLOWED)
    return float(number)


def as_text(rate: float) -> str:
    """A rate in the shortest unit in which it is a whole number: `500/min`."""
    for seconds, unit in ((1, "s"), (60, "min"), (3600, "hour"), (86_400, "day")):
        number = rate * seconds
        if number >= 1 and abs(number - round(number)) < 1e-9 * number:
            return f"{round(number)}/{unit}"
    return f"{rate:.3g}/s" if rate >= 1 else f"{rate * 3600:.3g}/hour"


def _parse(text: str) -> float | None:
    found = _RATE.fullmatch(text.strip().lower())
    seconds = (_UNITS | _LONGER).get(found[2] or "s") if found else None
    return float(found[1]) / seconds if found and seconds else None
