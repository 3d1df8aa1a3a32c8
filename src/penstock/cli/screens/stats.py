"""Throughput, waiting and running times."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from penstock.cli.screens import style
from penstock.cli.words import length, rate, share
from penstock.insights import Count, Ended, Percentiles, QueueInsight, Throughput

TASKS_SHOWN = 20
ROOMY = 130
NUMBERS = 115  # the width of all columns of numbers


def stats_page(
    windows: Sequence[Throughput], queues: Sequence[QueueInsight], width: int
) -> RenderableType:
    """What ended in each window, the tasks behind it, and what waits."""
    parts: list[RenderableType] = [_windows(windows, width)]
    if busiest := _widest(windows):
        parts += [Text(), _tasks(busiest, width)]
    parts += [Text(), _waiting(queues)]
    if not all(window.is_whole for window in windows):
        told = "* so much ended that only the newest part of the window was read"
        parts += [Text(), style.nothing(told)]
    return Group(*parts)


def _windows(windows: Sequence[Throughput], width: int) -> RenderableType:
    sheet = _numbers("ended in the last", width)
    for window in windows:
        name = _window(window.window) if window.is_whole else f"{length(window.covered)} *"
        _add(sheet, name, window.total, width)
    return sheet.table


def _tasks(window: Throughput, width: int) -> RenderableType:
    shortened = "" if window.is_whole else " *"
    sheet = _numbers(f"by task, last {_window(window.window)}{shortened}", width)
    for ended in window.tasks[:TASKS_SHOWN]:
        _add(sheet, ended.task or "", ended, width)
    if (more := len(window.tasks) - TASKS_SHOWN) > 0:
        return Group(sheet.table, style.nothing(f"and {more} more tasks"))
    return sheet.table


def _numbers(first: str, width: int) -> style.Sheet:
    # Where there is room for all of it, numbers stay near to their names.
    is_tight = width <= ROOMY
    sheet = style.Sheet(width, fills=is_tight)
    sheet.column(first, elastic=is_tight, most=None if is_tight else max(20, width - NUMBERS))
    sheet.column("rate", right=True)
    sheet.column("completed", right=True)
    sheet.column("failed", right=True)
    sheet.column("cancelled", right=True, above=115)
    sheet.column("failure rate", right=True, above=100)
    percentiles = "p50 / p95 / p99" if width > ROOMY else "p50 / p95"
    sheet.column(f"waited {percentiles}", right=True)
    sheet.column(f"ran {percentiles}", right=True)
    return sheet


def _add(sheet: style.Sheet, name: str, ended: Ended, width: int) -> None:
    sheet.row(
        name,
        rate(ended.per_second),
        _number(ended.completed, "green"),
        _number(ended.failed, "red"),
        _number(ended.cancelled, ""),
        Text(share(ended.failure_rate), "red" if ended.failure_rate else style.FAINT),
        _percentiles(ended.waited, width),
        _percentiles(ended.ran, width),
    )


def _number(number: int, colour: str) -> Text:
    return Text(f"{number:,}", colour if number else style.FAINT)


def _percentiles(found: Percentiles | None, width: int) -> Text:
    if found is None:
        return Text("–", style.FAINT)
    shown = (found.p50, found.p95, found.p99)[: 3 if width > ROOMY else 2]
    return Text(" / ".join(length(each) for each in shown))


def _waiting(queues: Sequence[QueueInsight]) -> Text:
    parts = []
    for name in ("ready", "scheduled", "running"):
        count = Count.sum(getattr(queue, name) for queue in queues)
        parts.append((f"{count} {name}", style.STATES[name]))
    for name, colour in (("blocked", style.STATES["blocked"]), ("late", "red")):
        if (count := Count.sum(getattr(queue, name) for queue in queues)).number:
            parts.append((f"{count} {name}", colour))
    line = Text("now: ", style.FAINT)
    return line.append(Text(", ").join(Text(*part) for part in parts))


def _widest(windows: Sequence[Throughput]) -> Throughput | None:
    """An hour tells more than a minute, unless nothing ended in it."""
    preferred = sorted(windows, key=lambda window: (window.window != 3600, window.window))
    return next((window for window in preferred if window.tasks), None)


def _window(seconds: float) -> str:
    return {60: "minute", 3600: "hour", 86_400: "day"}.get(round(seconds), length(seconds))
