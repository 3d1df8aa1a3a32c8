"""The hours in which a queue or a lane is open: times of day, on days of the week."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from penstock.errors import ConfigError
from penstock.zone import known_zone

DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MAX_WINDOWS: Final = 50
ALLOWED: Final = (
    "days and times such as 'mon-fri 22:00-06:00', 'sat,sun 00:00-24:00', or '12:00-13:00' for "
    "every day"
)
_WINDOW: Final = re.compile(r"(?:([a-z,-]+)\s+)?(\d{1,2}):(\d\d) ?- ?(\d{1,2}):(\d\d)", re.ASCII)


@dataclass(frozen=True, init=False, slots=True)
class Windows:
    """The hours in which workers take jobs.

        Windows("mon-fri 22:00-06:00", "sat,sun 00:00-24:00", timezone="Europe/Berlin")

    A window whose end is not after its beginning ends on the next day. Its days are those on which
    it begins. `open` has the windows in a uniform notation.
    """

    open: tuple[str, ...]
    timezone: str

    def __init__(self, *windows: str, timezone: str = "UTC") -> None:
        if not 1 <= len(windows) <= MAX_WINDOWS:
            raise ConfigError("windows", windows, f"1 to {MAX_WINDOWS}, each {ALLOWED}")
        object.__setattr__(self, "open", tuple(str(_Window.parse(each)) for each in windows))
        object.__setattr__(self, "timezone", known_zone(timezone))

    def stored(self) -> dict[str, Any]:
        """Return the windows as the JSON object that is stored."""
        return {
            "timezone": self.timezone,
            "open": [_Window.parse(each).stored() for each in self.open],
        }

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Self | None:
        """Read stored windows. Returns None for unreadable windows, which hold no job back."""
        windows = cls.__new__(cls)
        try:
            texts = tuple(str(_Window.read(each)) for each in stored["open"])
        except (LookupError, TypeError, AttributeError):
            return None
        object.__setattr__(windows, "open", texts)
        object.__setattr__(windows, "timezone", stored.get("timezone", "UTC"))
        return windows

    def __str__(self) -> str:
        return f"{'; '.join(self.open) or 'never'} ({self.timezone})"


@dataclass(frozen=True, slots=True)
class _Window:
    days: tuple[int, ...]
    start: str
    end: str

    @classmethod
    def parse(cls, text: Any) -> _Window:
        match = _WINDOW.fullmatch(text.strip().lower()) if isinstance(text, str) else None
        if match is None:
            raise ConfigError("windows", text, ALLOWED)
        days, *times = match.groups()
        start, end = _time(text, *times[:2], latest=23), _time(text, *times[2:], latest=24)
        return cls(_days(text, days) if days else tuple(range(1, 8)), start, end)

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> _Window:
        days = tuple(sorted(set(stored.get("days", range(1, 8)))))
        return cls(days, str(stored["from"])[:5], str(stored["to"])[:5])

    def stored(self) -> dict[str, Any]:
        return {"days": list(self.days), "from": self.start, "to": self.end}

    def __str__(self) -> str:
        times = f"{self.start}-{self.end}"
        return times if len(self.days) == len(DAYS) else f"{','.join(_spans(self.days))} {times}"


def _time(text: str, hour: str, minute: str, *, latest: int) -> str:
    if int(hour) > latest or int(minute) > 59 or (hour == "24" and minute != "00"):
        raise ConfigError(
            "windows", text, f"times from 00:00 to 23:59, and 24:00 as an end; {ALLOWED}"
        )
    return f"{int(hour):02}:{minute}"


def _days(text: str, days: str) -> tuple[int, ...]:
    """Return the numbers of the days, Monday is 1. `fri-mon` includes the weekend."""
    numbers: set[int] = set()
    for part in days.split(","):
        first, _, last = part.partition("-")
        if first not in DAYS or (last or first) not in DAYS:
            raise ConfigError("windows", text, f"the days {', '.join(DAYS)}; {ALLOWED}")
        start, end = DAYS.index(first), DAYS.index(last or first)
        numbers.update((start + step) % 7 + 1 for step in range((end - start) % 7 + 1))
    return tuple(sorted(numbers))


def _spans(days: Sequence[int]) -> Iterator[str]:
    """Yield days as text: three or more in a row are written as `mon-wed`."""
    rest = list(days)
    while rest:
        run = [rest.pop(0)]
        while rest and rest[0] == run[-1] + 1:
            run.append(rest.pop(0))
        names = [DAYS[day - 1] for day in run]
        yield f"{names[0]}-{names[-1]}" if len(names) > 2 else ",".join(names)
