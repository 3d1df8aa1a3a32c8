"""`penstock stats`, `workers` and `health`: how the queue is and what it did."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from penstock.cli import tables
from penstock.cli.database import reached
from penstock.cli.errors import DatabaseRefused, DatabaseUnreachable
from penstock.cli.framework import examples, spread
from penstock.cli.options import Where, seconds
from penstock.cli.output import Output, say, terminal
from penstock.cli.screens.queues import workers_table
from penstock.cli.tables import length, rate, share
from penstock.errors import SchemaError
from penstock.insights import (
    Count,
    Ended,
    Health,
    Percentiles,
    QueueInsight,
    Thresholds,
    Throughput,
)
from penstock.insights.health import unreachable
from penstock.wording import counted, span


@examples("penstock stats", "penstock stats --window 15m", "penstock stats --json")
@spread
def stats(
    *,
    window: Annotated[
        list[float] | None,
        typer.Option(
            parser=seconds,
            metavar="DURATION",
            help="The last so long, up to 7d; may be repeated. A minute, an hour and a day "
            "unless given.",
            show_default=False,
        ),
    ] = None,
    where: Where,
    output: Output,
) -> None:
    """Show throughput, failures and times.

    By task and outcome, with how long jobs waited and ran. At most some 100,000 ended jobs are
    read. If more ended in a window, it is shortened to what was read; rates stay true.
    """
    if window and not all(0 < each <= 7 * 86_400 for each in window):
        raise typer.BadParameter("a window is longer than nothing and at most 7d")
    asyncio.run(_show_stats(where, output, window))


async def _show_stats(where: Where, output: Output, window: list[float] | None) -> None:

    async with reached(where) as queue:
        windows = await queue.insights.throughput(*([window] if window else []))
        queues = await queue.insights.queues()
    document = {"throughput": windows, "queues": queues}
    output.show(document, lambda: _stats_page(windows, queues, terminal().width))


@examples("penstock workers", "penstock workers --limit 5000 --json")
@spread
def workers(
    *,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="How many.")] = 1000,
    where: Where,
    output: Output,
) -> None:
    """List the workers, and those that are lost.

    What they serve and run, where they are, and when they were last heard of.
    """
    asyncio.run(_show_workers(limit, where, output))


async def _show_workers(limit: int, where: Where, output: Output) -> None:

    async with reached(where) as queue:
        page = await queue.insights.worker_page(limit=limit)
    output.show(page, lambda: workers_table(page.workers, terminal().width))
    if page.left_out and not output.as_json:
        say(
            f"{len(page.workers):,} workers are shown, living ones first. {page.left_out:,} more "
            "are left out: --limit shows more of them."
        )


CODES = {"healthy": 0, "degraded": 1, "down": 2}


@examples("penstock health", "penstock health --json")
@spread
def health(where: Where, output: Output) -> None:
    """Say whether the queue is healthy, degraded or down.

    The exit code is 0, 1 or 2, as monitoring systems want it. A database that cannot be used is
    down. PENSTOCK_HEALTH moves the thresholds, such as error_rate_down=0.3,dead_hourly=10.
    """
    found = asyncio.run(_read_health(where))
    output.show(found, lambda: _health_page(found))
    raise typer.Exit(CODES[found.status])


async def _read_health(where: Where) -> Health:

    thresholds = Thresholds.of()
    try:
        async with reached(where) as queue:
            return await queue.insights.health(thresholds)
    except (DatabaseUnreachable, DatabaseRefused, SchemaError) as error:
        return unreachable(str(error), thresholds)


TASKS_SHOWN = 20
ROOMY = 130
NUMBERS = 115  # the width of all columns of numbers


def _stats_page(
    windows: Sequence[Throughput], queues: Sequence[QueueInsight], width: int
) -> RenderableType:
    """What ended in each window, the tasks behind it, and what waits."""
    parts: list[RenderableType] = [_windows(windows, width)]
    if busiest := _widest(windows):
        parts += [Text(), _tasks(busiest, width)]
    parts += [Text(), _waiting(queues)]
    if not all(window.is_whole for window in windows):
        told = "* so much ended that only the newest part of the window was read"
        parts += [Text(), tables.nothing(told)]
    return Group(*parts)


def _windows(windows: Sequence[Throughput], width: int) -> RenderableType:
    sheet = _numbers_sheet("ended in the last", width)
    for window in windows:
        name = _window(window.window) if window.is_whole else f"{length(window.covered)} *"
        _add(sheet, name, window.total, width)
    return sheet.table


def _tasks(window: Throughput, width: int) -> RenderableType:
    shortened = "" if window.is_whole else " *"
    sheet = _numbers_sheet(f"by task, last {_window(window.window)}{shortened}", width)
    for ended in window.tasks[:TASKS_SHOWN]:
        _add(sheet, ended.task or "", ended, width)
    if (more := len(window.tasks) - TASKS_SHOWN) > 0:
        return Group(sheet.table, tables.nothing(f"and {more} more tasks"))
    return sheet.table


def _numbers_sheet(first: str, width: int) -> tables.Sheet:
    # Where there is room for all of it, numbers stay near to their names.
    is_tight = width <= ROOMY
    sheet = tables.Sheet(width, fills=is_tight)
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


def _add(sheet: tables.Sheet, name: str, ended: Ended, width: int) -> None:
    sheet.row(
        name,
        rate(ended.per_second),
        _number(ended.completed, "green"),
        _number(ended.failed, "red"),
        _number(ended.cancelled, ""),
        Text(share(ended.failure_rate), "red" if ended.failure_rate else tables.FAINT),
        _percentiles(ended.waited, width),
        _percentiles(ended.ran, width),
    )


def _number(number: int, colour: str) -> Text:
    return Text(f"{number:,}", colour if number else tables.FAINT)


def _percentiles(found: Percentiles | None, width: int) -> Text:
    if found is None:
        return Text("–", tables.FAINT)
    shown = (found.p50, found.p95, found.p99)[: 3 if width > ROOMY else 2]
    return Text(" / ".join(length(each) for each in shown))


def _waiting(queues: Sequence[QueueInsight]) -> Text:
    parts = []
    for name in ("ready", "scheduled", "running"):
        count = Count.sum(getattr(queue, name) for queue in queues)
        parts.append((f"{count} {name}", tables.STATES[name]))
    for name, colour in (("blocked", tables.STATES["blocked"]), ("late", "red")):
        if (count := Count.sum(getattr(queue, name) for queue in queues)).number:
            parts.append((f"{count} {name}", colour))
    line = Text("now: ", tables.FAINT)
    return line.append(Text(", ").join(Text(*part) for part in parts))


def _widest(windows: Sequence[Throughput]) -> Throughput | None:
    """An hour tells more than a minute, unless nothing ended in it."""
    preferred = sorted(windows, key=lambda window: (window.window != 3600, window.window))
    return next((window for window in preferred if window.tasks), None)


def _window(seconds: float) -> str:
    return {60: "minute", 3600: "hour", 86_400: "day"}.get(round(seconds), length(seconds))


CAUSES_SHOWN = 10
STYLES = {"healthy": "bold green", "degraded": "bold yellow", "down": "bold red"}


def _health_page(health: Health) -> RenderableType:
    """The word, what speaks against it, and the numbers."""
    lines = [Text(health.status, STYLES[health.status])]
    lines += [Text(f"  {cause.status}: {cause.told}") for cause in health.causes[:CAUSES_SHOWN]]
    if more := health.causes[CAUSES_SHOWN:]:
        checks = Counter(cause.check for cause in more)
        each = ", ".join(f"{number:,} of {check}" for check, number in checks.most_common())
        lines.append(Text(f"  and {len(more):,} more causes ({each}); --json has all of them"))
    if health.queues_left_out.number:
        lines.append(Text(f"  {health.queues_left_out} more queues were not looked at"))
    if health.workers_left_out:
        lines.append(Text(f"  {health.workers_left_out:,} more workers were not looked at"))
    lines.append(Text("  ".join(_health_numbers(health)), tables.FAINT))
    return Group(*lines)


def _health_numbers(health: Health) -> list[str]:
    shown = [
        f"{health.pending} pending",
        f"{health.running} running",
        counted(health.workers, "worker"),
        f"{health.per_hour:,.0f} ended in the last hour",
    ]
    if health.mean_seconds is not None:
        shown.append(f"{span(health.mean_seconds)} each")
    if health.error_rate is not None:
        shown.append(f"{health.error_rate:.1%} failed")
    if health.last_processed is not None:
        ago = (datetime.now(UTC) - health.last_processed).total_seconds()
        shown.append(f"the last {span(max(ago, 0.0))} ago")
    return shown
