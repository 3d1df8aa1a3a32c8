"""The queues: a line each."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from penstock.cli.screens import style
from penstock.cli.screens.lanes import closed
from penstock.cli.words import length
from penstock.insights import Count, QueueInsight

WORKERS_SHOWN = 3


def queues_table(
    queues: Sequence[QueueInsight], width: int, *, title: str | None = None
) -> RenderableType:
    """Queues as a table: what waits, for how long, and who serves it."""
    if not queues:
        return style.nothing("No queue has jobs, workers or settings.")
    sheet = style.Sheet(width, title=title)
    sheet.column("queue", most=max(16, width // 5))
    sheet.column("", most=24, needed=any(_held(queue) for queue in queues))
    for name in ("ready", "scheduled", "running"):
        sheet.column(name, right=True)
    sheet.column("blocked", right=True, needed=any(queue.blocked.number for queue in queues))
    sheet.column("late", right=True, needed=any(queue.late.number for queue in queues))
    sheet.column("slots", right=True, above=85)
    sheet.column("oldest waits" if width > 85 else "oldest", right=True)
    sheet.column("workers", elastic=True)
    for queue in queues:
        sheet.row(
            queue.name,
            Text(_held(queue), "yellow"),
            _count(queue.ready, style.STATES["ready"]),
            _count(queue.scheduled, style.STATES["scheduled"]),
            _count(queue.running, style.STATES["running"]),
            _count(queue.blocked, style.STATES["blocked"]),
            _count(queue.late, "red"),
            f"{queue.slots:,}" if queue.slots else Text("0", style.FAINT),
            "" if queue.waited is None else length(queue.waited),
            _workers(queue),
        )
    return sheet.table


def _held(queue: QueueInsight) -> str:
    return "paused" if queue.is_paused else closed(queue.window)


def _count(count: Count, colour: str) -> Text:
    return Text(str(count), colour if count.number else style.FAINT)


def _workers(queue: QueueInsight) -> Text:
    if not queue.workers:
        needed = queue.ready.number or queue.scheduled.number
        return Text("none serves it" if needed else "none", "bold red" if needed else style.FAINT)
    shown = ", ".join(queue.workers[:WORKERS_SHOWN])
    more = len(queue.workers) - WORKERS_SHOWN
    return Text(f"{shown} and {more} more" if more > 0 else shown, style.FAINT)
