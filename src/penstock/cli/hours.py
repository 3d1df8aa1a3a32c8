"""Opening hours on the command line: the same options for queues and lanes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from penstock.cli.given import NONE


@dataclass(frozen=True, kw_only=True)
class Hours:
    """The windows in which workers take jobs."""

    window: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOURS",
            help="When workers take jobs: 'mon-fri 22:00-06:00', '12:00-13:00'. Again for more.",
            show_default=False,
        ),
    ] = None
    timezone: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The time zone of the hours; UTC without.", show_default=False
        ),
    ] = None
    always: Annotated[bool, typer.Option("--no-window", help="At any time again.")] = False

    def given(self) -> Any:
        """The windows; `none` for no windows any more, None if nothing is to change."""
        from penstock.windows import Windows

        if self.window and self.always:
            raise typer.BadParameter("either --window or --no-window, not both")
        if self.timezone is not None and not self.window:
            raise typer.BadParameter("--timezone goes with --window")
        if self.always:
            return NONE
        return Windows(*self.window, timezone=self.timezone or "UTC") if self.window else None
