"""The key of a unique job, from its arguments."""

import hashlib
from typing import Any

import msgspec
from msgspec.structs import replace

from penstock.errors import ConfigError
from penstock.tasks.parameters import Parameters
from penstock.tasks.template import check_names, filled, is_template, names_in, values_of
from penstock.tasks.unique import Unique

SETTING = "unique.key"


def with_key(unique: Unique, task: str, args: str, parameters: Parameters) -> Unique:
    """Return the rule with the key that it makes of a job's arguments.

    A default counts as given: whether a caller writes it down makes no other job.
    """
    if unique.key is None:
        return replace(unique, args=None, key=f"{task}:{_digest(unique, args, parameters)}")
    if not is_template(unique.key):
        return unique
    values = values_of(names_in(SETTING, unique.key), args, parameters)
    return replace(unique, key=filled(SETTING, unique.key, values))


def check_args(unique: Unique | None, parameters: Parameters) -> None:
    """Raise ConfigError for the name of an argument that the handler does not take."""
    if unique is None:
        return
    if unique.key is not None and is_template(unique.key):
        check_names(SETTING, unique.key, parameters)
    if unique.args is None or parameters.extra is not None:
        return
    if unknown := set(unique.args) - parameters.names:
        known = ", ".join(sorted(parameters.names)) or "none"
        raise ConfigError("unique.args", unknown.pop(), f"names of arguments; there are {known}")


def _digest(unique: Unique, args: str, parameters: Parameters) -> str:
    values: dict[str, Any] = values_of(parameters.names, args, parameters)
    if unique.args is not None:
        values = {name: values.get(name) for name in unique.args}
    chosen = msgspec.json.encode(values, order="deterministic")
    return hashlib.sha256(chosen).hexdigest()[:32]
