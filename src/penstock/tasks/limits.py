"""The keys of a job's limits, some of which come from its arguments."""

import msgspec
from msgspec.structs import replace

from penstock.errors import ConfigError
from penstock.tasks.options import Options, limit_key


def with_keys(options: Options, args: str) -> Options:
    """Return the options with each `{name}` in a limit's key replaced by that argument's value.

    `limits="account:{account}"` limits the jobs of each account by themselves.
    """
    if not any("{" in key for key in options.limits):
        return options
    values = msgspec.json.decode(args)
    return replace(options, limits=tuple(_filled(key, values) for key in options.limits))


def _filled(key: str, values: dict[str, object]) -> str:
    try:
        filled = key.format_map(values)
    except (KeyError, IndexError, AttributeError, ValueError) as error:
        known = ", ".join(values) or "none"
        raise ConfigError(
            "limits", key, f"names of arguments in braces; given are {known}"
        ) from error
    return limit_key("limits", filled)
