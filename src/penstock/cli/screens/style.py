"""How the screens look: one kind of table, one set of colours."""

from __future__ import annotations

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from penstock.cli.output import WIDE
from penstock.job import State

STATES: dict[State, str] = {
    "scheduled": "magenta",
    "ready": "cyan",
    "running": "yellow",
    "blocked": "blue",
    "completed": "green",
    "failed": "bold red",
    "cancelled": "bright_black",
}
FAINT = "bright_black"


class Sheet:
    """A table without lines that fits its width: one column gives way, unimportant ones go."""

    def __init__(self, width: int, *, title: str | None = None, fills: bool = True) -> None:
        self._width = width
        self._shown: list[bool] = []
        self.table = Table(
            box=None,
            title=title,
            title_justify="left",
            title_style="bold",
            header_style=FAINT,
            pad_edge=False,
            padding=(0, 2, 0, 0),
            expand=fills and width < WIDE,
        )

    def column(
        self,
        name: str,
        *,
        most: int | None = None,
        right: bool = False,
        above: int = 0,
        needed: bool = True,
        elastic: bool = False,
    ) -> None:
        """Add a column: at most so wide, and only if the sheet is wider than `above`."""
        is_shown = needed and self._width > above
        self._shown.append(is_shown)
        if is_shown:
            self.table.add_column(
                name,
                justify="right" if right else "left",
                no_wrap=True,
                overflow="ellipsis",
                max_width=most,
                min_width=8 if elastic else None,
                ratio=1 if elastic else None,
            )

    def row(self, *cells: RenderableType, style: str = "") -> None:
        """Add a row, with a cell for every column, shown or not."""
        shown = [cell for cell, is_shown in zip(cells, self._shown, strict=True) if is_shown]
        self.table.add_row(*shown, style=style)


def state(name: State) -> Text:
    return Text(name, STATES[name])


def nothing(sentence: str) -> Text:
    """What is shown where there is nothing to show."""
    return Text(sentence, FAINT)
