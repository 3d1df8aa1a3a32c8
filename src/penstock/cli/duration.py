"""Lengths of time as people write them: `25s`, `1h30m`, `2d`, `500ms`, or plain seconds."""

from __future__ import annotations

import re
from typing import Annotated

import typer

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def seconds(text: str | float) -> float:
    """The number of seconds that a text means."""
    try:
        number = float(text)
    except ValueError:
        number = _sum(str(text))
    if not 0 <= number <= 366 * 86_400:
        raise typer.BadParameter(f"{text} is no length of time of up to a year")
    return number


def _sum(text: str) -> float:
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise typer.BadParameter(
            f"{text!r} is no length of time; write 25s, 1h30m, 2d, 500ms or 25"
        )
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


Timeout = Annotated[
    float | None,
    typer.Option(
        parser=seconds,
        metavar="DURATION",
        help="The longest to wait; then the exit code is 6.",
        show_default=False,
    ),
]
