"""The key of a unique job, from its arguments."""

import hashlib
from typing import Any

import msgspec
from msgspec.structs import replace

from penstock.errors import ConfigError
from penstock.tasks.parameters import Parameters
from penstock.tasks.payload import ARGS_LIMIT, encode_object
from penstock.tasks.unique import Unique


def with_key(unique: Unique, task: str, args: str, parameters: Parameters) -> Unique:
    """Return the rule with the key that it makes of a job's arguments."""
    if unique.key is not None:
        return unique
    values = {**_defaults(parameters), **msgspec.json.decode(args)}
    if unique.args is not None:
        values = {name: values.get(name) for name in unique.args}
    chosen = msgspec.json.encode(values, order="deterministic")
    return replace(unique, args=None, key=f"{task}:{hashlib.sha256(chosen).hexdigest()[:32]}")


def check_args(unique: Unique | None, parameters: Parameters) -> None:
    """Raise ConfigError for the name of an argument that the handler does not take."""
    if unique is None or unique.args is None or parameters.extra is not None:
        return
    if unknown := set(unique.args) - parameters.names:
        known = ", ".join(sorted(parameters.names)) or "none"
        raise ConfigError("unique.args", unknown.pop(), f"names of arguments; there are {known}")


def _defaults(parameters: Parameters) -> dict[str, Any]:
    """A default counts as given: whether a caller writes it down makes no other job."""
    if not parameters.defaults:
        return {}
    defaults: dict[str, Any] = msgspec.json.decode(encode_object(parameters.defaults, ARGS_LIMIT))
    return defaults
