"""Keys with arguments in them: `account:{account}`, or a part of one, `{account[id]}`."""

from collections.abc import Iterable, Iterator
from string import Formatter
from typing import Any

import msgspec

from penstock.errors import ConfigError
from penstock.tasks.parameters import Parameters
from penstock.tasks.payload import ARGS_LIMIT, encode_object


def is_template(key: str) -> bool:
    return "{" in key


def check_names(setting: str, key: str, parameters: Parameters) -> None:
    """Raise ConfigError for the name of an argument that the handler does not take."""
    if parameters.extra is None and not parameters.names.issuperset(names_in(setting, key)):
        raise _unknown(setting, key, "the handler takes", parameters.names)


def names_in(setting: str, key: str) -> Iterator[str]:
    """The arguments that a key names."""
    try:
        for _, field, _, _ in Formatter().parse(key):
            if field is not None:
                yield field.partition("[")[0].partition(".")[0]
    except ValueError as error:
        raise ConfigError(setting, key, f"names of arguments in braces ({error})") from error


def values_of(names: Iterable[str], args: str, parameters: Parameters) -> dict[str, Any]:
    """The arguments of a job, and of those that are left out and named here their defaults."""
    values: dict[str, Any] = msgspec.json.decode(args)
    defaults = parameters.defaults
    absent = {name for name in names if name not in values}
    if absent := absent & defaults.keys():
        # As the arguments' own: what a value is in a key must not depend on who gave it.
        left_out = {name: defaults[name] for name in absent}
        values |= msgspec.json.decode(encode_object(left_out, ARGS_LIMIT))
    return values


def filled(setting: str, key: str, values: dict[str, Any]) -> str:
    """The key with each `{name}` replaced by that argument's value."""
    try:
        return key.format_map(values)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise _unknown(setting, key, "given are", values) from error


def _unknown(setting: str, key: str, known: str, names: Iterable[str]) -> ConfigError:
    listed = ", ".join(sorted(names)) or "none"
    return ConfigError(setting, key, f"names of arguments in braces; {known} {listed}")
