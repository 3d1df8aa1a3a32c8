"""Tables, and how numbers stand in them; `penstock.wording` has those for sentences."""

from __future__ import annotations

from datetime import datetime

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from penstock.cli.output import WIDE
from penstock.job import State


def length(seconds: float) -> str:
    """A length of time in two steps at most: `850 ms`, `2.4 s`, `3m 05s`, `2d 4h`."""
    if seconds < 1:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = max(int(seconds), 60)
    for unit, size, lower, step in (("d", 86_400, "h", 3600), ("h", 3600, "m", 60)):
        if whole >= size:
            return f"{whole // size}{unit} {whole % size // step:02}{lower}"
    return f"{whole // 60}m {whole % 60:02}s"


def ago(seconds: float) -> str:
    """How long ago, in one step: `3 s ago`, `12m ago`, `2d ago`."""
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f}{unit} ago"
    return f"{max(seconds, 0):.0f} s ago"


def rate(per_second: float) -> str:
    """Jobs a second; a minute or an hour where that would be less than one."""
    if per_second >= 99.95:
        return f"{per_second:,.0f}/s"
    for unit, seconds in (("s", 1), ("min", 60)):
        if per_second * seconds >= 1:
            return f"{per_second * seconds:.1f}/{unit}"
    return f"{per_second * 3600:.1f}/h" if per_second else "0/s"


def share(part: float | None) -> str:
    """A part of one in percent."""
    if part is None:
        return "–"
    return f"{part:.1%}" if part else "0 %"


def at(moment: datetime) -> str:
    """A moment to the second, in UTC."""
    return f"{moment:%Y-%m-%d %H:%M:%S}"


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
