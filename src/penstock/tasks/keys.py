"""Fills arguments into the keys of limits and of unique jobs, such as `account:{account}`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from string import Formatter
from typing import Any

import msgspec
from msgspec.structs import replace

from penstock.errors import ConfigError
from penstock.tasks.options import Options, limit_key
from penstock.tasks.parameters import Parameters
from penstock.tasks.payload import ARGS_LIMIT, encode_object
from penstock.tasks.unique import Unique


def is_template(key: str) -> bool:
    return "{" in key


def check_names(setting: str, key: str, parameters: Parameters) -> None:
    """Raise ConfigError if the key names an argument that the handler does not take."""
    if parameters.extra is None and not parameters.names.issuperset(argument_names(setting, key)):
        raise _unknown(setting, key, "the handler takes", parameters.names)


def argument_names(setting: str, key: str) -> Iterator[str]:
    """Yield the names of the arguments that a key contains in braces."""
    try:
        for _, field, _, _ in Formatter().parse(key):
            if field is not None:
                yield field.partition("[")[0].partition(".")[0]
    except ValueError as error:
        raise ConfigError(setting, key, f"names of arguments in braces ({error})") from error


def argument_values(names: Iterable[str], args: str, parameters: Parameters) -> dict[str, Any]:
    """Return a job's arguments, and the defaults of the arguments in `names` that it leaves out."""
    values: dict[str, Any] = msgspec.json.decode(args)
    defaults = parameters.defaults
    absent = {name for name in names if name not in values}
    if absent := absent & defaults.keys():
        # Defaults go through JSON like arguments, so that both make the same key.
        omitted = {name: defaults[name] for name in absent}
        values |= msgspec.json.decode(encode_object(omitted, ARGS_LIMIT))
    return values


def fill_template(setting: str, key: str, values: dict[str, Any]) -> str:
    """Return the key with each `{name}` replaced by that argument's value."""
    try:
        return key.format_map(values)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise _unknown(setting, key, "given are", values) from error


def _unknown(setting: str, key: str, known: str, names: Iterable[str]) -> ConfigError:
    listed = ", ".join(sorted(names)) or "none"
    return ConfigError(setting, key, f"names of arguments in braces; {known} {listed}")


LIMITS_SETTING = "limits"


def fill_limit_keys(options: Options, args: str, parameters: Parameters) -> Options:
    """Return the options with each `{name}` in a limit's key replaced by that argument's value.

    With `limits="account:{account}"`, each account has a limit of its own.
    """
    if not any(is_template(key) for key in options.limits):
        return options
    names = [name for key in options.limits for name in argument_names(LIMITS_SETTING, key)]
    values = argument_values(names, args, parameters)
    keys = (
        limit_key(LIMITS_SETTING, fill_template(LIMITS_SETTING, key, values))
        for key in options.limits
    )
    return replace(options, limits=tuple(keys))


def check_limit_keys(options: Options, parameters: Parameters) -> None:
    """Raise ConfigError if a limit's key names an argument that the handler does not take."""
    for key in options.limits:
        check_names(LIMITS_SETTING, key, parameters)


UNIQUE_KEY_SETTING = "unique.key"


def fill_unique_key(unique: Unique, task: str, args: str, parameters: Parameters) -> Unique:
    """Return the rule with the key of a job, which is built from the job's arguments.

    Arguments that the job leaves out count with their defaults, so that two calls have the same key
    if one of them passes a default value and the other leaves it out.
    """
    if unique.key is None:
        return replace(unique, args=None, key=f"{task}:{_digest(unique, args, parameters)}")
    if not is_template(unique.key):
        return unique
    values = argument_values(argument_names(UNIQUE_KEY_SETTING, unique.key), args, parameters)
    return replace(unique, key=fill_template(UNIQUE_KEY_SETTING, unique.key, values))


def check_unique_args(unique: Unique | None, parameters: Parameters) -> None:
    """Raise ConfigError if the rule names an argument that the handler does not take."""
    if unique is None:
        return
    if unique.key is not None and is_template(unique.key):
        check_names(UNIQUE_KEY_SETTING, unique.key, parameters)
    if unique.args is None or parameters.extra is not None:
        return
    if unknown := set(unique.args) - parameters.names:
        known = ", ".join(sorted(parameters.names)) or "none"
        raise ConfigError("unique.args", unknown.pop(), f"names of arguments; there are {known}")


def _digest(unique: Unique, args: str, parameters: Parameters) -> str:
    values: dict[str, Any] = argument_values(parameters.names, args, parameters)
    if unique.args is not None:
        values = {name: values.get(name) for name in unique.args}
    encoded = msgspec.json.encode(values, order="deterministic")
    return hashlib.sha256(encoded).hexdigest()[:32]
