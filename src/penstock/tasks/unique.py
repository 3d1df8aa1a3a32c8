"""Unique jobs: of those with one key only one is there at a time, and what happens to the next."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, Final, Literal, get_args

import msgspec
from msgspec import Struct

from penstock.backoff import MAX_DELAY_S
from penstock.errors import ConfigError
from penstock.job import UNSTORABLE

Hold = Literal["live", "waiting"]
OnConflict = Literal["skip", "replace", "supersede", "raise"]

LONGEST_KEY: Final = 500


class Unique(Struct, frozen=True, kw_only=True):
    """What makes a job the same as another, for how long, and what becomes of the second one.

        @app.task(unique=Unique(args=["document"], on_conflict="supersede"))
        async def index(document: int, text: str) -> None: ...

    The key is made of the task, its tenant and the `args` that are named, all of them by default;
    or it is the `key` that you give, in which `{document}` becomes that argument. A key is held
    while its job lives, or only while it waits (`hold="waiting"`); for `keep` seconds after its
    end, too; with a `period` until that part of time is over, whatever becomes of the job.
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
            raise ConfigError("hold", self.hold, "live, if a key is kept beyond the job's start")
        if self.key is not None:
            if self.args is not None:
                raise ConfigError("key", self.key, "either key or args, not both")
            _check_key(self.key)

    def stored(self) -> dict[str, Any]:
        """The rule as SQL reads it: with its key, and without what is a default."""
        rule = {"key": self.key, "hold": self.hold, "on_conflict": self.on_conflict}
        more = {"keep": self.keep, "period": self.period}
        return rule | {name: value for name, value in more.items() if value is not None}


def unique_of(setting: str, value: Any) -> Unique | None:
    """Return the rule of `unique=`: True stands for the defaults, None and False for no rule."""
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
    if all(isinstance(one, str) for one in names):
        return names
    raise ConfigError("args", value, 'names of arguments, such as ["document"]')


def _seconds(setting: str, value: Any) -> float:
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if type(number) not in (int, float) or not 0 < number <= MAX_DELAY_S:
        raise ConfigError(setting, value, f"more than 0 and up to {MAX_DELAY_S:.0f} seconds")
    return float(number)


def _check_key(key: Any) -> None:
    fits = isinstance(key, str) and 1 <= len(key) <= LONGEST_KEY
    if not fits or UNSTORABLE.search(key):
        raise ConfigError("key", key, f"text of 1 to {LONGEST_KEY} characters without NUL")
