"""The options of a job, such as its queue, its time and its number of attempts."""

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
from penstock.tasks.unique import Unique, check_unique

QUEUE_NAME: Final = compile(r"[A-Za-z0-9_.:-]{1,128}")
META_LIMIT: Final = 64 * 1024
MAX_ATTEMPTS: Final = 1_000_000
MAX_TAGS: Final = 32
MAX_LIMITS: Final = 4
# Every time zone and every notation can express the times between these. Postgres knows more.
MIN_TIME: Final = datetime(1970, 1, 1, tzinfo=UTC)
MAX_TIME: Final = datetime(9999, 1, 1, tzinfo=UTC)


class OptionValues(TypedDict, total=False):
    """The keyword arguments of `task.options(…)`. Durations are seconds or timedeltas.

    - `queue`: the queue of the job.
    - `lane`: the lane in which it waits, instead of the queue's choice.
    - `limits`: up to 4 keys of limits that apply to it.
    - `priority`: from -100 to 100. Jobs with a higher priority are claimed first.
    - `delay`: how many seconds to wait before it runs.
    - `run_at`: run it at a time, a datetime with a time zone.
    - `max_attempts`: how often it is tried, the first attempt included.
    - `timeout`: how many seconds an attempt may take; None means no limit.
    - `retry`: the policy that says how long to wait between attempts.
    - `tenant`: the tenant that it belongs to.
    - `subject`: what it is about, such as `document:42`, to find it by.
    - `requested_by`: who asked for it.
    - `tags`: up to 32 words to find it by.
    - `meta`: a dict of your own, which is stored with the job.
    - `deadline`: cancel it if it has not started by this time.
    - `idempotency_key`: enqueue only one job, even if the call is repeated with the same key.
    - `unique`: let only one job of a key exist at a time.
    """

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
    """Checked options in the form of a row: durations in seconds, `retry` and `meta` as JSON."""

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
    unique: Unique | None = None  # its key is filled in once the arguments are known

    def updated(self, values: Mapping[str, Any]) -> "Options":
        """Return these options with some of them replaced. Raises ConfigError for a bad value."""
        checked = {}
        for name, value in values.items():
            if name not in CHECKS:
                raise TypeError(f"There is no option {name!r}; there are {', '.join(CHECKS)}.")
            checked[name] = CHECKS[name](name, value)
        _choose_time(checked)
        return replace(self, **checked)


def limit_key(setting: str, value: Any) -> str:
    """Return a limit's key or a lane's name, or raise ConfigError if it is not allowed.

    It must not contain U+001F, which separates the lane and the limit keys in a job's row.
    """
    if UNIT_SEPARATOR in (text := _name(setting, value)):
        raise ConfigError(
            setting, value, "text without U+001F, which stands between a lane's parts"
        )
    return text


def seconds(setting: str, value: Any) -> float:
    """Return a duration in seconds, or raise ConfigError."""
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if type(number) not in (int, float) or not 0 <= number <= MAX_DELAY_S:
        raise ConfigError(setting, value, f"seconds from 0 to {MAX_DELAY_S:.0f}, or a timedelta")
    return float(number)


def check_name(setting: str, value: Any, pattern: Pattern[str]) -> str:
    """Return the name if it matches the pattern, or raise ConfigError."""
    if isinstance(value, str) and pattern.fullmatch(value):
        return value
    raise ConfigError(setting, value, f"a name that matches {pattern.pattern}")


def check_whole_number(setting: str, value: Any, low: int, high: int) -> int:
    """Return the value if it is a whole number from `low` to `high`, or raise ConfigError."""
    if type(value) is int and low <= value <= high:
        return value
    raise ConfigError(setting, value, f"a whole number from {low} to {high}")


def _choose_time(checked: dict[str, Any]) -> None:
    """Clear an earlier `run_at` if a `delay` is set, or an earlier `delay` if a `run_at` is set.

    Raises Misuse if both are set at once.
    """
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
    """Return the checked time. None stands for no time.

    Raises ConfigError for a time without a zone, or one that not every database and language can
    hold.
    """
    if value is None:
        return None
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise ConfigError(setting, value, "a datetime with a time zone, such as datetime.now(UTC)")
    if not MIN_TIME <= value < MAX_TIME:
        raise ConfigError(
            setting, value, f"a time from {MIN_TIME:%Y-%m-%d} on and before {MAX_TIME:%Y-%m-%d}"
        )
    return value


def _retry(setting: str, value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(dump_policy(value)).decode()


def _text(max_chars: int, *, min_chars: int = 1) -> Callable[[str, Any], str]:
    allowed = f"text of {min_chars} to {max_chars} characters without NUL or lone surrogates"

    def check(setting: str, value: Any) -> str:
        fits = isinstance(value, str) and min_chars <= len(value) <= max_chars
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
    if len(tags) > MAX_TAGS:
        raise ConfigError(setting, value, f"at most {MAX_TAGS} tags")
    return tuple(_tag(setting, tag) for tag in tags)


def _limits(setting: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = (value,)
    if not isinstance(value, Iterable):
        raise ConfigError(setting, value, 'a key or a list of keys, such as ["openai"]')
    keys = tuple(dict.fromkeys(value))
    if len(keys) > MAX_LIMITS:
        raise ConfigError(setting, value, f"at most {MAX_LIMITS} limits")
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
    "queue": lambda setting, value: check_name(setting, value, QUEUE_NAME),
    "lane": _optional(limit_key),
    "limits": _limits,
    "priority": lambda setting, value: check_whole_number(setting, value, -100, 100),
    "delay": _delay,
    "run_at": checked_time,
    "max_attempts": lambda setting, value: check_whole_number(setting, value, 1, MAX_ATTEMPTS),
    "timeout": _timeout,
    "retry": _retry,
    "tenant": _text(200, min_chars=0),
    "subject": _optional(_text(500)),
    "requested_by": _optional(_text(200)),
    "tags": _tags,
    "meta": _meta,
    "deadline": checked_time,
    "idempotency_key": _optional(_text(500)),
    "unique": check_unique,
}
