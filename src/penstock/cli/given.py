"""Options that change settings: one that is not given changes nothing, `none` takes away."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from types import EllipsisType
from typing import Any, TypeVar

import typer

T = TypeVar("T")

NONE = "none"


def or_none(parse: Callable[[str], T]) -> Callable[[str], T | str]:
    """What reads an option that may also be `none`."""

    def read(text: str) -> T | str:
        return NONE if str(text).lower() == NONE else parse(text)

    return read


def setting(value: Any) -> Any | EllipsisType | None:
    """An option as the client takes it: `...` for none given, None for `none`."""
    if value is None:
        return ...
    return None if value is NONE or value == NONE else value


def settings(**given: Any) -> dict[str, Any]:
    """Options as settings of the client, at least one of which is to change."""
    chosen = {name: setting(value) for name, value in given.items()}
    changing = {name: value for name, value in chosen.items() if value is not ...}
    if not changing:
        raise typer.BadParameter("nothing is to change: give at least one setting")
    return changing


def whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no whole number") from None


def number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no number") from None


def user() -> str | None:
    """Who types, for the audit; None where the system knows nobody."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return None
