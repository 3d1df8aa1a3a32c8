"""A part of a list: how many, and after which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer


@dataclass(frozen=True)
class Page:
    """The options of commands that list many things."""

    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 100
    after: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Those that are older than this one.", show_default=False),
    ] = None

    @property
    def start(self) -> int | None:
        if self.after is None:
            return None
        if not self.after.isdecimal() or len(self.after) > 18:
            raise typer.BadParameter(f"{self.after!r} is no id", param_hint="--after")
        return int(self.after)
