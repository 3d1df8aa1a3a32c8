"""The keys of a job's limits, some of which come from its arguments."""

from collections.abc import Iterator
from string import Formatter
from typing import Any

import msgspec
from msgspec.structs import replace

from penstock.errors import ConfigError
from penstock.tasks.options import Options, limit_key
from penstock.tasks.parameters import Parameters
from penstock.tasks.payload import ARGS_LIMIT, encode_object


def with_keys(options: Options, args: str, parameters: Parameters) -> Options:
    """Return the options with each `{name}` in a limit's key replaced by that argument's value.

    `limits="account:{account}"` limits the jobs of each account by themselves.
    """
    if not any("{" in key for key in options.limits):
        return options
    values = _values(options.limits, args, parameters)
    return replace(options, limits=tuple(_filled(key, values) for key in options.limits))


def check_keys(options: Options, parameters: Parameters) -> None:
    """Raise ConfigError for a key with the name of an argument that the handler does not take."""
    for key in options.limits if parameters.extra is None else ():
        if not parameters.names.issuperset(_names(key)):
            raise _unknown(key, "the handler takes", parameters.names)


def _values(keys: tuple[str, ...], args: str, parameters: Parameters) -> dict[str, Any]:
    values: dict[str, Any] = msgspec.json.decode(args)
    defaults = parameters.defaults
    absent = {name for key in keys for name in _names(key) if name not in values}
    if absent := absent & defaults.keys():
        # As the arguments' own: what a value is in a key must not depend on who gave it.
        left_out = {name: defaults[name] for name in absent}
        values |= msgspec.json.decode(encode_object(left_out, ARGS_LIMIT))
    return values


def _names(key: str) -> Iterator[str]:
    """The arguments that a key names: `{account}`, or a part of one, `{account[id]}`."""
    try:
        for _, field, _, _ in Formatter().parse(key):
            if field is not None:
                yield field.partition("[")[0].partition(".")[0]
    except ValueError as error:
        raise ConfigError("limits", key, f"names of arguments in braces ({error})") from error


def _filled(key: str, values: dict[str, Any]) -> str:
    try:
        filled = key.format_map(values)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise _unknown(key, "given are", values) from error
    return limit_key("limits", filled)


def _unknown(key: str, known: str, names: Any) -> ConfigError:
    listed = ", ".join(sorted(names)) or "none"
    return ConfigError("limits", key, f"names of arguments in braces; {known} {listed}")
