"""The moments at which a schedule fires, by cron or by interval; the time is an argument."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count, islice, takewhile
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from penstock.backoff import LONGEST
from penstock.errors import ConfigError

SHORTEST: Final = 0.1
NICKNAMES: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}
CRON_ALLOWED: Final = (
    "five fields (minute, hour, day of the month, month, day of the week), six with seconds before "
    f"them, or {', '.join(NICKNAMES)}"
)
_SOME_DAY: Final = "an expression that some day fits: none of its months has such a day"
# How far back to look for the last tick: as far as need be, for the sake of those every second.
_SPANS: Final = tuple(timedelta(days=days) for days in (1 / 1440, 1 / 24, 1, 32, 366, 366 * 9))


class Rule(NamedTuple):
    """When a schedule fires: by `cron` in a time zone, or `every` so many seconds from an anchor.

    On the day on which an hour is left out, what would fire in it fires at its end; on the day on
    which one comes twice, once: for expressions that name hour and minute, as Debian's cron has it.
    """

    cron: str | None
    every: float | None
    timezone: str
    anchor: datetime

    def after(self, moment: datetime) -> Iterator[datetime]:
        """The ticks that come after a moment, in UTC."""
        found = self._by_cron(moment) if self.cron is not None else self._by_interval(moment)
        # The library may begin an hour too early where the clocks are set back.
        return (tick for tick in found if tick > moment)

    def latest(self, after: datetime, until: datetime) -> datetime | None:
        """The last tick of a span of time that begins after one moment and ends with another."""
        for span in _SPANS:
            start = max(after, until - span)
            last = None
            for last in takewhile(lambda tick: tick <= until, self.after(start)):  # noqa: B007
                pass
            if last is not None or start == after:
                return last
        return None

    def number(self, after: datetime, until: datetime, most: int) -> int:
        """How many ticks a span of time has, or `most`."""
        ticks = takewhile(lambda tick: tick <= until, self.after(after))
        return sum(1 for _ in islice(ticks, most))

    def _by_cron(self, moment: datetime) -> Iterator[datetime]:
        assert self.cron is not None
        zone = UTC if self.timezone == "UTC" else ZoneInfo(self.timezone)
        for tick in CronSim(self.cron, moment.astimezone(zone)):
            yield tick.astimezone(UTC)

    def _by_interval(self, moment: datetime) -> Iterator[datetime]:
        assert self.every is not None
        passed = (moment - self.anchor).total_seconds() / self.every
        for number in count(max(1, int(passed))):
            yield self.anchor + timedelta(microseconds=round(number * self.every * 1e6))


def checked_cron(text: Any) -> str:
    """A cron expression as it is stored, its nickname spelled out."""
    cron = NICKNAMES.get(text.strip().lower(), text) if isinstance(text, str) else text
    try:
        expression = " ".join(cron.split())
        next(CronSim(expression, datetime.now(UTC)))
    except (AttributeError, ValueError, CronSimError) as error:
        if _is_never(cron):
            raise ConfigError("cron", text, _SOME_DAY) from None
        why = f"; {error}" if isinstance(error, CronSimError) else ""
        raise ConfigError("cron", text, f"{CRON_ALLOWED}{why}") from error
    except StopIteration:
        raise ConfigError("cron", text, _SOME_DAY) from None
    return expression


def _is_never(cron: Any) -> bool:
    """Whether only its months have no such day, which the library tells like any other mistake."""
    fields = cron.split() if isinstance(cron, str) else []
    if len(fields) not in (5, 6):
        return False
    try:
        CronSim(" ".join([*fields[:-2], "*", fields[-1]]), datetime.now(UTC))
        CronSim(f"* * * {fields[-2]} *", datetime.now(UTC))
    except (ValueError, CronSimError):
        return False
    return True


def checked_every(value: Any) -> float:
    """An interval in seconds."""
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if type(number) not in (int, float) or not SHORTEST <= number <= LONGEST:
        raise ConfigError("every", value, f"{SHORTEST:g} to {LONGEST:.0f} seconds")
    return float(number)
