"""Check arguments as settings are checked, but raise BadArgument instead of ConfigError."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from penstock.errors import BadArgument, ConfigError
from penstock.tasks import options

P = ParamSpec("P")
T = TypeVar("T")


def _of_argument(check: Callable[P, T]) -> Callable[P, T]:
    """Return a version of the check that raises BadArgument instead of ConfigError."""

    @wraps(check)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return check(*args, **kwargs)
        except ConfigError as error:
            raise BadArgument(error.setting, error.value, error.allowed) from None

    return checked


check_whole_number: Final = _of_argument(options.check_whole_number)
check_name: Final = _of_argument(options.check_name)
seconds: Final = _of_argument(options.seconds)
checked_time: Final = _of_argument(options.checked_time)
