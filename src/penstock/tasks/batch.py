"""Micro-batching: how many jobs of a task share one call of its handler, and which."""

from collections.abc import Callable, Collection, Hashable
from datetime import timedelta
from typing import Any, Final, Literal, get_args

import msgspec
from msgspec import Struct

from penstock.errors import ConfigError
from penstock.tasks.options import seconds

Shared = Literal["tenant", "lane"]
Key = Shared | Callable[[Any], Hashable]

MOST_ITEMS: Final = 10_000
# The database takes back what is past its timeout by a minute, counted from the claim: an item that
# waits for others, and then for a slot, must have begun long before.
LONGEST_LINGER: Final = 30.0


class Batch(Struct, frozen=True):
    """The handler takes many jobs in one call, and returns an outcome for each.

        @app.task(batch=Batch(size=64, linger=0.05))
        async def embed(items: list[Item[str]]) -> list[list[float]]: ...

    A call has up to `size` items. It begins once it has them, or `linger` seconds after the first
    of them has come. Only items of one `key` share a call: their `"tenant"`, their `"lane"`, or
    what a function makes of the value; without one all do. Errors of `fails_all` are nobody's
    fault, so the guilty item is not looked for: all items of the call fail with it.
    """

    size: int
    linger: float | timedelta = 0.05
    key: Key | None = None
    fails_all: Collection[type[Exception]] = (OSError,)

    def __post_init__(self) -> None:
        set_ = msgspec.structs.force_setattr
        if type(self.size) is not int or not 1 <= self.size <= MOST_ITEMS:
            raise ConfigError("batch.size", self.size, f"1 to {MOST_ITEMS} items")
        if (linger := seconds("batch.linger", self.linger)) > LONGEST_LINGER:
            raise ConfigError("batch.linger", self.linger, f"0 to {LONGEST_LINGER:g} seconds")
        set_(self, "linger", linger)
        if not (self.key is None or self.key in get_args(Shared) or callable(self.key)):
            raise ConfigError(
                "batch.key", self.key, '"tenant", "lane" or a function of the item\'s value'
            )
        set_(self, "fails_all", _errors(self.fails_all))

    @property
    def seconds(self) -> float:
        """How long the first item waits for more."""
        assert isinstance(self.linger, float)
        return self.linger


def _errors(given: Any) -> tuple[type[Exception], ...]:
    allowed = "a tuple of exception classes"
    if not isinstance(given, Collection) or isinstance(given, str):
        raise ConfigError("batch.fails_all", given, allowed)
    for one in given:
        if not (isinstance(one, type) and issubclass(one, Exception)):
            raise ConfigError("batch.fails_all", one, allowed)
    return tuple(given)
