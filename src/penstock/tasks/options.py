"""How a job is to be run, apart from its arguments."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from re import Pattern, compile
from typing import Any, Final, TypedDict

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from penstock.backoff import MAX_DELAY_S, Policy, dump_policy
from penstock.errors import ConfigError, Misuse
from penstock.job import UNIT_SEPARATOR, UNSTORABLE
from penstock.tasks.payload import encode_object
from penstock.tasks.unique import Unique, unique_of

QUEUE_NAME: Final = compile(r"[A-Za-z0-9_.:-]{1,128}")
META_LIMIT: Final = 64 * 1024
MOST_ATTEMPTS: Final = 1_000_000
MOST_TAGS: Final = 32
MOST_LIMITS: Final = 4
# What every time zone and every notation of a time can say; Postgres knows more than that.
EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
LATEST: Final = datetime(9999, 1, 1, tzinfo=UTC)


class OptionValues(TypedDict, total=False):
    """What `task.options(...)` takes. Durations are seconds or timedeltas."""

    queue: str
    lane: str | None
    limits: str | Iterable[str]
    priority: int
    delay: float | timedelta | None
    run_at: datetime | None
    max_attempts: int
    timeout: float | timedelta | None
    retry: Policy | None
    tenant: str
    subject: str | None
    requested_by: str | None
    tags: Iterable[str]
    meta: Mapping[str, Any] | None
    deadline: datetime | None
    idempotency_key: str | None
    unique: Unique | bool | None


class Options(Struct, frozen=True, kw_only=True):
    """Checked options as a row stores them: durations in seconds, `retry` and `meta` as JSON."""

    queue: str = "default"
    lane: str | None = None
    limits: tuple[str, ...] = ()
    priority: int = 0
    delay: float | None = None
    run_at: datetime | None = None
    max_attempts: int = 5
    timeout: float | None = 3600.0
    retry: str | None = None
    tenant: str = ""
    subject: str | None = None
    requested_by: str | None = None
    tags: tuple[str, ...] = ()
    meta: str | None = None
    deadline: datetime | None = None
    idempotency_key: str | None = None
    unique: Unique | None = None  # with its key once the arguments are known

    def updated(self, values: Mapping[str, Any]) -> "Options":
        """Return these options with some of them set anew, each checked."""
        checked = {}
        for name, value in values.items():
            if name not in CHECKS:
                raise TypeError(f"There is no option {name!r}; there are {', '.join(CHECKS)}.")
            checked[name] = CHECKS[name](name, value)
        _choose_time(checked)
        return replace(self, **checked)


def limit_key(setting: str, value: Any) -> str:
    """Return a limit's key, or a lane's name: they stand side by side in a row."""
    if UNIT_SEPARATOR in (text := _name(setting, value)):
        raise ConfigError(
            setting, value, "text without U+001F, which stands between a lane's parts"
        )
    return text


def seconds(setting: str, value: Any) -> float:
    """Return a duration in seconds."""
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if type(number) not in (int, float) or not 0 <= number <= MAX_DELAY_S:
        raise ConfigError(setting, value, f"seconds from 0 to {MAX_DELAY_S:.0f}, or a timedelta")
    return float(number)


def matching(setting: str, value: Any, pattern: Pattern[str]) -> str:
    """Return a name that fits its pattern."""
    if isinstance(value, str) and pattern.fullmatch(value):
        return value
    raise ConfigError(setting, value, f"a name that matches {pattern.pattern}")


def whole(setting: str, value: Any, low: int, high: int) -> int:
    """Return a whole number within its bounds."""
    if type(value) is int and low <= value <= high:
        return value
    raise ConfigError(setting, value, f"a whole number from {low} to {high}")


def _choose_time(checked: dict[str, Any]) -> None:
    """Delay and run_at say the same thing in two ways: the one that is given clears the other."""
    delay, run_at = checked.get("delay"), checked.get("run_at")
    if delay is not None and run_at is not None:
        raise Misuse("A job has either a delay or a run_at, not both.", "run_at")
    if delay is not None:
        checked["run_at"] = None
    elif run_at is not None:
        checked["delay"] = None


def _delay(setting: str, value: Any) -> float | None:
    return None if value is None else seconds(setting, value)


def _timeout(setting: str, value: Any) -> float | None:
    if value is None:
        return None
    if not (limit := seconds(setting, value)):
        raise ConfigError(setting, value, "more than 0 seconds, or None for no limit")
    return limit


def checked_time(setting: str, value: Any) -> datetime | None:
    """Return a moment that every database and language can hold, or None."""
    if value is None:
        return None
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise ConfigError(setting, value, "a datetime with a time zone, such as datetime.now(UTC)")
    if not EARLIEST <= value < LATEST:
        raise ConfigError(
            setting, value, f"a time from {EARLIEST:%Y-%m-%d} on and before {LATEST:%Y-%m-%d}"
        )
    return value


def _retry(setting: str, value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(dump_policy(value)).decode()


def _text(longest: int, *, shortest: int = 1) -> Callable[[str, Any], str]:
    allowed = f"text of {shortest} to {longest} characters without NUL or lone surrogates"

    def check(setting: str, value: Any) -> str:
        fits = isinstance(value, str) and shortest <= len(value) <= longest
        if not fits or UNSTORABLE.search(value):
            raise ConfigError(setting, value, allowed)
        return str(value)

    return check


def _optional(check: Callable[[str, Any], str]) -> Callable[[str, Any], str | None]:
    return lambda setting, value: None if value is None else check(setting, value)


def _tags(setting: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ConfigError(setting, value, 'a list of texts, such as ["nightly"]')
    tags = tuple(dict.fromkeys(value))
    if len(tags) > MOST_TAGS:
        raise ConfigError(setting, value, f"at most {MOST_TAGS} tags")
    return tuple(_tag(setting, tag) for tag in tags)


def _limits(setting: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = (value,)
    if not isinstance(value, Iterable):
        raise ConfigError(setting, value, 'a key or a list of keys, such as ["openai"]')
    keys = tuple(dict.fromkeys(value))
    if len(keys) > MOST_LIMITS:
        raise ConfigError(setting, value, f"at most {MOST_LIMITS} limits")
    return tuple(limit_key(setting, key) for key in keys)


def _meta(setting: str, value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise ConfigError(setting, value, "a dict with string keys, or None")
    return encode_object(dict(value), META_LIMIT, field=setting) if value else None


_tag = _text(100)
_name = _text(200)

CHECKS: Final[dict[str, Callable[[str, Any], Any]]] = {
    "queue": lambda setting, value: matching(setting, value, QUEUE_NAME),
    "lane": _optional(limit_key),
    "limits": _limits,
    "priority": lambda setting, value: whole(setting, value, -100, 100),
    "delay": _delay,
    "run_at": checked_time,
    "max_attempts": lambda setting, value: whole(setting, value, 1, MOST_ATTEMPTS),
    "timeout": _timeout,
    "retry": _retry,
    "tenant": _text(200, shortest=0),
    "subject": _optional(_text(500)),
    "requested_by": _optional(_text(200)),
    "tags": _tags,
    "meta": _meta,
    "deadline": checked_time,
    "idempotency_key": _optional(_text(500)),
    "unique": unique_of,
}
