"""The lanes of a queue: a line each."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from penstock.cli.screens import style
from penstock.cli.words import length
from penstock.insights import Count, LaneInsight, Lanes, Window


def lanes_table(found: Lanes, width: int, *, title: str | None = None) -> RenderableType:
    """Lanes as a table: what waits in them, how often it is their turn, what holds them."""
    lanes = found.lanes
    if not lanes:
        return style.nothing(f"No lane of the queue {found.queue} has jobs or settings.")
    has_limits = any(lane.limits for lane in lanes)
    sheet = style.Sheet(width, title=title, fills=has_limits)
    sheet.column("lane", most=max(16, width // 4))
    sheet.column("", most=24, needed=any(held(lane) for lane in lanes))
    for name in ("ready", "running", "late"):
        sheet.column(name, right=True)
    sheet.column("oldest waits" if width > 85 else "oldest", right=True)
    sheet.column("weight", right=True)
    sheet.column("limits", elastic=True, needed=has_limits)
    for lane in lanes:
        sheet.row(
            lane.name or Text("(no name)", style.FAINT),
            Text(held(lane), "yellow"),
            number(lane.ready, style.STATES["ready"]),
            number(lane.running, style.STATES["running"]),
            number(lane.late, "red"),
            "" if lane.waited is None else length(lane.waited),
            str(lane.weight),
            Text(", ".join(lane.limits), style.FAINT),
        )
    return sheet.table


def held(lane: LaneInsight) -> str:
    """What keeps workers from a lane; nothing if they may take its jobs."""
    return "paused" if lane.is_paused else closed(lane.window)


def closed(window: Window) -> str:
    """That a window is closed, and for how long; nothing if it is open."""
    if window.is_open:
        return ""
    if window.changes_in is None:
        return "never open"
    return f"closed for {length(window.changes_in)}"


def number(count: Count, colour: str) -> Text:
    return Text(str(count), colour if count.number else style.FAINT)
