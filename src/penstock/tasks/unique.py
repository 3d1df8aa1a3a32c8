"""Unique jobs: one job of a key exists at a time, and a rule says what happens to a second job."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, Final, Literal, get_args

import msgspec
from msgspec import Struct

from penstock.backoff import MAX_DELAY_S
from penstock.errors import ConfigError, Misuse
from penstock.job import UNSTORABLE

Hold = Literal["live", "waiting"]
OnConflict = Literal["skip", "replace", "supersede", "raise"]

MAX_KEY_CHARS: Final = 500


class Unique(Struct, frozen=True, kw_only=True):
    """Says which jobs count as the same, for how long, and what happens to a second such job.

        @app.task(unique=Unique(args=["document"], on_conflict="supersede"))
        async def index(document: int, text: str) -> None: ...

    - `args`: the arguments that make the key, together with task and tenant; by default all.
    - `key`: a key of your own instead, in which `{document}` becomes that argument.
    - `hold`: a job holds its key until it ends (`"live"`), or only until it starts (`"waiting"`).
    - `keep`: for how many more seconds to hold the key after the job has ended.
    - `period`: the length, in seconds, of periods into which time is divided. The key is held until
      the end of the period in which the job is enqueued, no matter when the job ends.
    - `on_conflict`: `"skip"` returns the job that holds the key. `"replace"` gives that job the new
      arguments and options if it has not started; if it runs, the new job takes over the key.
      `"supersede"` cancels that job and enqueues the new one. `"raise"` raises UniqueConflict.
    """

    args: Sequence[str] | None = None
    key: str | None = None
    hold: Hold = "live"
    keep: float | timedelta | None = None
    period: float | timedelta | None = None
    on_conflict: OnConflict = "skip"

    def __post_init__(self) -> None:
        set_ = msgspec.structs.force_setattr
        if self.args is not None:
            set_(self, "args", _names(self.args))
        for name in ("keep", "period"):
            if (value := getattr(self, name)) is not None:
                set_(self, name, _seconds(name, value))
        if self.hold not in get_args(Hold):
            raise ConfigError("hold", self.hold, " or ".join(get_args(Hold)))
        if self.on_conflict not in get_args(OnConflict):
            raise ConfigError("on_conflict", self.on_conflict, ", ".join(get_args(OnConflict)))
        if self.hold == "waiting" and (self.keep or self.period):
            raise ConfigError(
                "hold",
                self.hold,
                "live when keep or period is set, because such a key is held beyond the job's "
                "start",
            )
        if self.key is not None:
            if self.args is not None:
                raise Misuse("Unique takes either key or args, not both.", "key")
            _check_key(self.key)

    def stored(self) -> dict[str, Any]:
        """Return the rule as the JSON object that SQL reads."""
        rule = {"key": self.key, "hold": self.hold, "on_conflict": self.on_conflict}
        optional = {"keep": self.keep, "period": self.period}
        return rule | {name: value for name, value in optional.items() if value is not None}


def check_unique(setting: str, value: Any) -> Unique | None:
    """Return the rule for the option `unique`, or raise ConfigError.

    True stands for the default rule. False and None stand for no rule, so this returns None.
    """
    if isinstance(value, Unique):
        return value
    if value is None or value is False:
        return None
    if value is True:
        return Unique()
    raise ConfigError(setting, value, "a Unique(…), True or None")


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    names = tuple(value) if isinstance(value, Iterable) else (value,)
    if all(isinstance(name, str) for name in names):
        return names
    raise ConfigError("args", value, 'names of arguments, such as ["document"]')


def _seconds(setting: str, value: Any) -> float:
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if type(number) not in (int, float) or not 0 < number <= MAX_DELAY_S:
        raise ConfigError(setting, value, f"more than 0 and up to {MAX_DELAY_S:.0f} seconds")
    return float(number)


def _check_key(key: Any) -> None:
    fits = isinstance(key, str) and 1 <= len(key) <= MAX_KEY_CHARS
    if not fits or UNSTORABLE.search(key):
        raise ConfigError("key", key, f"text of 1 to {MAX_KEY_CHARS} characters without NUL")
