"""The keys of a job's limits, some of which come from its arguments."""

from msgspec.structs import replace

from penstock.tasks.options import Options, limit_key
from penstock.tasks.parameters import Parameters
from penstock.tasks.template import check_names, filled, is_template, names_in, values_of

SETTING = "limits"


def with_keys(options: Options, args: str, parameters: Parameters) -> Options:
    """Return the options with each `{name}` in a limit's key replaced by that argument's value.

    `limits="account:{account}"` limits the jobs of each account by themselves.
    """
    if not any(is_template(key) for key in options.limits):
        return options
    names = [name for key in options.limits for name in names_in(SETTING, key)]
    values = values_of(names, args, parameters)
    keys = (limit_key(SETTING, filled(SETTING, key, values)) for key in options.limits)
    return replace(options, limits=tuple(keys))


def check_keys(options: Options, parameters: Parameters) -> None:
    """Raise ConfigError for a key with the name of an argument that the handler does not take."""
    for key in options.limits:
        check_names(SETTING, key, parameters)
