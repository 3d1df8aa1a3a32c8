"""A schedule as code declares it: a request, and when it is to be enqueued."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from re import compile
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from penstock.errors import ConfigError, Misuse
from penstock.tasks.given import not_a_task
from penstock.tasks.options import matching, seconds
from penstock.tasks.request import Request
from penstock.tasks.task import Task
from penstock.tasks.ticks import Rule, checked_cron, checked_every
from penstock.zone import known_zone

Overlap: TypeAlias = Literal["skip", "queue_one", "allow"]
CatchUp: TypeAlias = Literal["skip", "once", "all"]
Wins: TypeAlias = Literal["runtime", "code"]
AnyRequest: TypeAlias = Request[Any] | Task[..., Any]

NAME: Final = compile(r"[\w.:@/+-]{1,200}")
MOST_JITTER: Final = 86_400.0
ZONELESS: Final = "a time zone for cron alone; an interval has none, so leave it out"
# A tick says when, and whether at all: these would contradict it.
_NOT_SCHEDULED: Final = ("delay", "run_at", "deadline", "idempotency_key")


class Declaration(Struct, frozen=True, kw_only=True):
    """What the code says of a schedule, checked. Its anchor is for the database to set."""

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
    """A declaration of these parts, each checked."""
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
        raise ConfigError("timezone", timezone, ZONELESS)
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
    return matching("schedule", name, NAME)


def checked_request(what: Any) -> Request[Any]:
    """A request that can be enqueued again and again; a task stands for one without arguments."""
    request = what.prepare() if isinstance(what, Task) else what
    if not isinstance(request, Request):
        raise Misuse(not_a_task("A schedule", what), "request")
    for option in _NOT_SCHEDULED:
        if (value := getattr(request.options, option)) is not None:
            raise Misuse(
                f"The request of a schedule has the option {option}, {value!r}: leave it out, for "
                "its ticks say when it runs.",
                option,
            )
    unique = request.options.unique
    if unique is not None and unique.on_conflict == "raise":
        raise Misuse(
            "The request of a schedule raises where its unique key is held, and a tick has no "
            "caller to hear of it: choose skip, replace or supersede.",
            "unique",
        )
    return request


def checked_jitter(setting: str, value: Any, every: float | None = None) -> float:
    """A jitter in seconds, of which an interval allows no more than its own length."""
    length = seconds(setting, value)
    if length > MOST_JITTER:
        raise ConfigError(setting, value, f"0 to {MOST_JITTER:.0f} seconds")
    if every is not None and length > every:
        raise ConfigError(setting, value, f"0 to {every:g} seconds, the interval's length")
    return length


def one_of(*names: str) -> Callable[[str, Any], str]:
    """A check that a setting is one of these names."""

    def check(setting: str, value: Any) -> str:
        if value not in names:
            raise ConfigError(setting, value, " or ".join(names))
        return str(value)

    return check


checked_overlap: Final = one_of("skip", "queue_one", "allow")
checked_catch_up: Final = one_of("skip", "once", "all")
