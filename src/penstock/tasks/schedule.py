"""Schedules that code declares, and the times at which they fire: by cron or by interval."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count, islice, takewhile
from re import compile
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from msgspec import Struct

from penstock.backoff import MAX_DELAY_S
from penstock.errors import ConfigError, Misuse
from penstock.tasks.options import check_name, seconds
from penstock.tasks.registry import explain_not_a_task
from penstock.tasks.request import Request
from penstock.tasks.task import Task
from penstock.zone import known_zone

MIN_INTERVAL_S: Final = 0.1
NICKNAMES: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}
CRON_FORM: Final = (
    "five fields (minute, hour, day of the month, month, day of the week), six with seconds before "
    f"them, or {', '.join(NICKNAMES)}"
)
_POSSIBLE_DAY: Final = "an expression that fits some day, but none of its months has such a day"
# The search for the last tick goes back in these steps, so that frequent ticks are found fast.
_SEARCH_SPANS: Final = tuple(
    timedelta(days=days) for days in (1 / 1440, 1 / 24, 1, 32, 366, 366 * 9)
)


class Rule(NamedTuple):
    """When a schedule fires: by `cron` in a time zone, or every `every` seconds from `anchor` on.

    Daylight saving time is handled as in Debian's cron, for expressions that name a fixed hour and
    minute. If the clocks skip that hour, the schedule fires at its end. If the clocks repeat that
    hour, the schedule fires only once.
    """

    cron: str | None
    every: float | None
    timezone: str
    anchor: datetime

    def after(self, moment: datetime) -> Iterator[datetime]:
        """Yield the ticks after a moment, in UTC."""
        ticks = self._by_cron(moment) if self.cron is not None else self._by_interval(moment)
        # Where clocks are set back, the library may begin an hour too early.
        return (tick for tick in ticks if tick > moment)

    def latest(self, after: datetime, until: datetime) -> datetime | None:
        """Return the last tick that is later than `after` and not later than `until`, or None."""
        for span in _SEARCH_SPANS:
            start = max(after, until - span)
            last = None
            for last in takewhile(lambda tick: tick <= until, self.after(start)):  # noqa: B007
                pass
            if last is not None or start == after:
                return last
        return None

    def count_ticks(self, after: datetime, until: datetime, limit: int) -> int:
        """Count the ticks that are later than `after` and not later than `until`, up to `limit`."""
        ticks = takewhile(lambda tick: tick <= until, self.after(after))
        return sum(1 for _ in islice(ticks, limit))

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
    """Return a cron expression in the form that is stored, or raise ConfigError.

    Nicknames such as `@daily` are spelled out.
    """
    cron = NICKNAMES.get(text.strip().lower(), text) if isinstance(text, str) else text
    try:
        expression = " ".join(cron.split())
        next(CronSim(expression, datetime.now(UTC)))
    except (AttributeError, ValueError, CronSimError) as error:
        if _never_fires(cron):
            raise ConfigError("cron", text, _POSSIBLE_DAY) from None
        reason = f"; {error}" if isinstance(error, CronSimError) else ""
        raise ConfigError("cron", text, f"{CRON_FORM}{reason}") from error
    except StopIteration:
        raise ConfigError("cron", text, _POSSIBLE_DAY) from None
    return expression


def _never_fires(cron: Any) -> bool:
    """Return whether a cron expression is wrong only because its months have no such day.

    CronSim reports this like any other mistake.
    """
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
    """Return an interval in seconds, or raise ConfigError."""
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if type(number) not in (int, float) or not MIN_INTERVAL_S <= number <= MAX_DELAY_S:
        raise ConfigError("every", value, f"{MIN_INTERVAL_S:g} to {MAX_DELAY_S:.0f} seconds")
    return float(number)


Overlap: TypeAlias = Literal["skip", "queue_one", "allow"]
CatchUp: TypeAlias = Literal["skip", "once", "all"]
Wins: TypeAlias = Literal["runtime", "code"]
AnyRequest: TypeAlias = Request[Any] | Task[..., Any]

NAME: Final = compile(r"[\w.:@/+-]{1,200}")
MAX_JITTER_S: Final = 86_400.0
ZONE_OF_INTERVAL: Final = "a time zone for cron alone; an interval has none, so leave it out"
# The ticks say when a job runs, and whether it does. These options would contradict them.
_FORBIDDEN_OPTIONS: Final = ("delay", "run_at", "deadline", "idempotency_key")


class Declaration(Struct, frozen=True, kw_only=True):
    """A checked schedule that the code declares. The database sets the anchor of its rule."""

    name: str
    request: Request[Any]
    rule: Rule
    jitter: float
    overlap: str
    catch_up: str
    on_start: bool
    wins: str


def declare(
    name: str,
    what: AnyRequest,
    *,
    cron: str | None,
    every: float | timedelta | None,
    timezone: str,
    jitter: float | timedelta,
    overlap: Overlap,
    catch_up: CatchUp,
    on_start: bool,
    wins: Wins,
) -> Declaration:
    """Check the arguments of `app.schedule`, and return the declaration."""
    if (cron is None) == (every is None):
        both = "both are given" if cron is not None else "neither is given"
        raise Misuse(f"A schedule has either cron or every, and {both}.", "cron")
    rule = Rule(
        None if cron is None else checked_cron(cron),
        None if every is None else checked_every(every),
        known_zone(timezone),
        datetime.now(UTC),
    )
    if rule.every is not None and timezone != "UTC":
        raise ConfigError("timezone", timezone, ZONE_OF_INTERVAL)
    return Declaration(
        name=schedule_name(name),
        request=checked_request(what),
        rule=rule,
        jitter=checked_jitter("jitter", jitter, rule.every),
        overlap=checked_overlap("overlap", overlap),
        catch_up=checked_catch_up("catch_up", catch_up),
        on_start=bool(on_start),
        wins=one_of("runtime", "code")("wins", wins),
    )


def schedule_name(name: Any) -> str:
    return check_name("schedule", name, NAME)


def checked_request(what: Any) -> Request[Any]:
    """Return a request that can be enqueued again and again, or raise Misuse.

    If you pass a task, its jobs have no arguments.
    """
    request = what.prepare() if isinstance(what, Task) else what
    if not isinstance(request, Request):
        raise Misuse(explain_not_a_task("A schedule", what), "request")
    for option in _FORBIDDEN_OPTIONS:
        if (value := getattr(request.options, option)) is not None:
            raise Misuse(
                f"The request of a schedule has the option {option}, {value!r}. Leave it out: the "
                "schedule says when its jobs run.",
                option,
            )
    unique = request.options.unique
    if unique is not None and unique.on_conflict == "raise":
        raise Misuse(
            "The request of a schedule cannot have on_conflict='raise', because a tick has no "
            "caller that could catch the error. Choose skip, replace or supersede.",
            "unique",
        )
    return request


def checked_jitter(setting: str, value: Any, every: float | None = None) -> float:
    """Return a jitter in seconds, or raise ConfigError. It must not exceed the interval."""
    length = seconds(setting, value)
    if length > MAX_JITTER_S:
        raise ConfigError(setting, value, f"0 to {MAX_JITTER_S:.0f} seconds")
    if every is not None and length > every:
        raise ConfigError(setting, value, f"0 to {every:g} seconds, the interval's length")
    return length


def one_of(*names: str) -> Callable[[str, Any], str]:
    """Return a function that checks that a setting is one of these names."""

    def check(setting: str, value: Any) -> str:
        if value not in names:
            raise ConfigError(setting, value, " or ".join(names))
        return str(value)

    return check


checked_overlap: Final = one_of("skip", "queue_one", "allow")
checked_catch_up: Final = one_of("skip", "once", "all")


class Timetable:
    """The schedules that an app's code declares.

    A worker writes them to the database at its start.
    """

    def __init__(self) -> None:
        self._declared: dict[str, Declaration] = {}

    def add(self, declaration: Declaration) -> None:
        if declaration.name in self._declared:
            raise Misuse(
                f"Two schedules have the name {declaration.name!r}. Give one of them another name.",
                "schedule",
            )
        self._declared[declaration.name] = declaration

    def names(self) -> list[str]:
        """Return the names of all schedules, sorted."""
        return sorted(self._declared)

    def __iter__(self) -> Iterator[Declaration]:
        return iter(self._declared.values())

    def __len__(self) -> int:
        return len(self._declared)
