"""Build tables for a terminal, and format their numbers. For sentences use `penstock.wording`."""

from __future__ import annotations

from datetime import datetime

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from penstock.cli.output import UNLIMITED_WIDTH
from penstock.job import State

STATE_COLOURS: dict[State, str] = {
    "scheduled": "magenta",
    "ready": "cyan",
    "running": "yellow",
    "blocked": "blue",
    "completed": "green",
    "failed": "bold red",
    "cancelled": "bright_black",
}
FAINT = "bright_black"


def format_duration(seconds: float) -> str:
    """Format a duration in at most two units: `850 ms`, `2.4 s`, `3m 05s`, `2d 4h`."""
    if seconds < 1:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = max(int(seconds), 60)
    for unit, size, lower, step in (("d", 86_400, "h", 3600), ("h", 3600, "m", 60)):
        if whole >= size:
            return f"{whole // size}{unit} {whole % size // step:02}{lower}"
    return f"{whole // 60}m {whole % 60:02}s"


def format_age(seconds: float) -> str:
    """Format an age in one unit: `3 s ago`, `12m ago`, `2d ago`."""
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f}{unit} ago"
    return f"{max(seconds, 0):.0f} s ago"


def format_rate(per_second: float) -> str:
    """Format a rate as jobs per second; below one, as jobs per minute or hour."""
    if per_second >= 99.95:
        return f"{per_second:,.0f}/s"
    for unit, seconds in (("s", 1), ("min", 60)):
        if per_second * seconds >= 1:
            return f"{per_second * seconds:.1f}/{unit}"
    return f"{per_second * 3600:.1f}/h" if per_second else "0/s"


def format_percentage(ratio: float | None) -> str:
    """Format a ratio as a percentage; `–` if it is unknown."""
    if ratio is None:
        return "–"
    return f"{ratio:.1%}" if ratio else "0 %"


def format_time(time: datetime) -> str:
    """Format a time in UTC, to the second."""
    return f"{time:%Y-%m-%d %H:%M:%S}"


class TableBuilder:
    """Builds a table that fits the terminal, without lines between its cells.

    The elastic column shrinks, and columns with `wider_than` disappear on a narrow terminal.
    """

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
            expand=fills and width < UNLIMITED_WIDTH,
        )

    def column(
        self,
        name: str,
        *,
        max_width: int | None = None,
        align_right: bool = False,
        wider_than: int = 0,
        needed: bool = True,
        elastic: bool = False,
    ) -> None:
        """Add a column of at most `max_width` characters.

        The column is left out unless it is `needed` and the terminal is wider than `wider_than`.
        """
        is_shown = needed and self._width > wider_than
        self._shown.append(is_shown)
        if is_shown:
            self.table.add_column(
                name,
                justify="right" if align_right else "left",
                no_wrap=True,
                overflow="ellipsis",
                max_width=max_width,
                min_width=8 if elastic else None,
                ratio=1 if elastic else None,
            )

    def row(self, *cells: RenderableType, style: str = "") -> None:
        """Add a row. It needs a cell for every column, even for columns that are left out."""
        shown = [cell for cell, is_shown in zip(cells, self._shown, strict=True) if is_shown]
        self.table.add_row(*shown, style=style)


def state_text(name: State) -> Text:
    return Text(name, STATE_COLOURS[name])


def empty_text(sentence: str) -> Text:
    """Return the text that is shown instead of a table without rows."""
    return Text(sentence, FAINT)
