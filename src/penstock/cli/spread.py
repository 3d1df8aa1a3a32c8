"""Options that many commands share, declared once as a group.

A command takes the group as one parameter; on the command line each field is an option.

    @dataclass(frozen=True)
    class Where:
        schema: Annotated[str | None, typer.Option(help="…")] = None

    @spread
    def stats(where: Where) -> None: ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for each field of its groups, as Typer reads them."""
    hints = get_type_hints(command, include_extras=True)
    taken = signature(command).parameters.values()
    groups = {each.name: hints[each.name] for each in taken if is_dataclass(hints[each.name])}

    @wraps(command)
    def spread_out(**given: Any) -> None:
        gathered = {
            name: group(**{field.name: given.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**given, **gathered)

    parameters = [
        option
        for each in taken
        for option in (
            _options(groups[each.name])
            if each.name in groups
            else [each.replace(annotation=hints[each.name], kind=Parameter.KEYWORD_ONLY)]
        )
    ]
    spread_out.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    spread_out.__annotations__ = {each.name: each.annotation for each in parameters}
    return spread_out


def _options(group: type[Any]) -> Iterator[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        yield Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=_default(field),
            annotation=hints[field.name],
        )


def _default(field: Field[Any]) -> Any:
    return Parameter.empty if field.default is MISSING else field.default
