"""`penstock stats`, `workers` and `health`: throughput, workers and health of the queue."""

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
from penstock.cli.database import open_queue
from penstock.cli.errors import DatabaseRefused, DatabaseUnreachable
from penstock.cli.framework import examples, expand_options
from penstock.cli.options import DatabaseOptions, parse_duration
from penstock.cli.output import Output, say, terminal
from penstock.cli.screens.queues import workers_table
from penstock.cli.tables import format_duration, format_percentage, format_rate
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

HEALTH_EXIT_CODES = {"healthy": 0, "degraded": 1, "down": 2}
MAX_TASKS_SHOWN = 20
ROOMY_WIDTH = 130
# The width of all columns of numbers.
NUMBER_COLUMNS_WIDTH = 115
MAX_CAUSES_SHOWN = 10
HEALTH_STYLES = {"healthy": "bold green", "degraded": "bold yellow", "down": "bold red"}


@examples("penstock stats", "penstock stats --window 15m", "penstock stats --json")
@expand_options
def stats(
    *,
    window: Annotated[
        list[float] | None,
        typer.Option(
            parser=parse_duration,
            metavar="DURATION",
            help="The last so long, up to 7d; may be repeated. A minute, an hour and a day "
            "unless given.",
            show_default=False,
        ),
    ] = None,
    db: DatabaseOptions,
    output: Output,
) -> None:
    """Show throughput, failures and times.

    By task and outcome, with how long jobs waited and ran. At most some 100,000 ended jobs are
    read. If more ended in a window, it is shortened to what was read; rates stay true.
    """
    if window and not all(0 < seconds <= 7 * 86_400 for seconds in window):
        raise typer.BadParameter("each --window must be longer than 0 and at most 7d")
    asyncio.run(_show_stats(db, output, window))


async def _show_stats(db: DatabaseOptions, output: Output, window: list[float] | None) -> None:
    async with open_queue(db) as queue:
        windows = await queue.insights.throughput(*([window] if window else []))
        queues = await queue.insights.queues()
    document = {"throughput": windows, "queues": queues}
    output.show(document, lambda: _stats_page(windows, queues, terminal().width))


@examples("penstock workers", "penstock workers --limit 5000 --json")
@expand_options
def workers(
    *,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="How many.")] = 1000,
    db: DatabaseOptions,
    output: Output,
) -> None:
    """List the workers, and those that are lost.

    What they serve and run, where they are, and when they were last heard of.
    """
    asyncio.run(_show_workers(limit, db, output))


async def _show_workers(limit: int, db: DatabaseOptions, output: Output) -> None:
    async with open_queue(db) as queue:
        page = await queue.insights.worker_page(limit=limit)
    output.show(page, lambda: workers_table(page.workers, terminal().width))
    if page.left_out and not output.as_json:
        say(
            f"{len(page.workers):,} workers are shown, living ones first. {page.left_out:,} more "
            "are left out: --limit shows more of them."
        )


@examples("penstock health", "penstock health --json")
@expand_options
def health(db: DatabaseOptions, output: Output) -> None:
    """Say whether the queue is healthy, degraded or down.

    The exit code is 0, 1 or 2, as monitoring systems want it. A database that cannot be used is
    down. PENSTOCK_HEALTH moves the thresholds, such as error_rate_down=0.3,dead_hourly=10.
    """
    health_report = asyncio.run(_read_health(db))
    output.show(health_report, lambda: _health_page(health_report))
    raise typer.Exit(HEALTH_EXIT_CODES[health_report.status])


async def _read_health(db: DatabaseOptions) -> Health:
    thresholds = Thresholds.of()
    try:
        async with open_queue(db) as queue:
            return await queue.insights.health(thresholds)
    except (DatabaseUnreachable, DatabaseRefused, SchemaError) as error:
        return unreachable(str(error), thresholds)


def _stats_page(
    windows: Sequence[Throughput], queues: Sequence[QueueInsight], width: int
) -> RenderableType:
    """Return a page with throughput by period, the tasks of one period, and queue counts."""
    parts: list[RenderableType] = [_windows_table(windows, width)]
    if busiest := _choose_window(windows):
        parts += [Text(), _tasks_table(busiest, width)]
    parts += [Text(), _waiting_text(queues)]
    if not all(window.is_whole for window in windows):
        remark = "* so much ended that only the newest part of the window was read"
        parts += [Text(), tables.empty_text(remark)]
    return Group(*parts)


def _windows_table(windows: Sequence[Throughput], width: int) -> RenderableType:
    builder = _numbers_table("ended in the last", width)
    for window in windows:
        name = (
            _window_name(window.window)
            if window.is_whole
            else f"{format_duration(window.covered)} *"
        )
        _add_row(builder, name, window.total, width)
    return builder.table


def _tasks_table(window: Throughput, width: int) -> RenderableType:
    shortened = "" if window.is_whole else " *"
    builder = _numbers_table(f"by task, last {_window_name(window.window)}{shortened}", width)
    for ended in window.tasks[:MAX_TASKS_SHOWN]:
        _add_row(builder, ended.task or "", ended, width)
    if (more := len(window.tasks) - MAX_TASKS_SHOWN) > 0:
        return Group(builder.table, tables.empty_text(f"and {more} more tasks"))
    return builder.table


def _numbers_table(first: str, width: int) -> tables.TableBuilder:
    # On a wide terminal the numbers stay close to the names.
    is_tight = width <= ROOMY_WIDTH
    builder = tables.TableBuilder(width, fills=is_tight)
    builder.column(
        first,
        elastic=is_tight,
        max_width=None if is_tight else max(20, width - NUMBER_COLUMNS_WIDTH),
    )
    builder.column("rate", align_right=True)
    builder.column("completed", align_right=True)
    builder.column("failed", align_right=True)
    builder.column("cancelled", align_right=True, wider_than=115)
    builder.column("failure rate", align_right=True, wider_than=100)
    percentiles = "p50 / p95 / p99" if width > ROOMY_WIDTH else "p50 / p95"
    builder.column(f"waited {percentiles}", align_right=True)
    builder.column(f"ran {percentiles}", align_right=True)
    return builder


def _add_row(builder: tables.TableBuilder, name: str, ended: Ended, width: int) -> None:
    builder.row(
        name,
        format_rate(ended.per_second),
        _number_text(ended.completed, "green"),
        _number_text(ended.failed, "red"),
        _number_text(ended.cancelled, ""),
        Text(format_percentage(ended.failure_rate), "red" if ended.failure_rate else tables.FAINT),
        _percentiles_text(ended.waited, width),
        _percentiles_text(ended.ran, width),
    )


def _number_text(number: int, colour: str) -> Text:
    return Text(f"{number:,}", colour if number else tables.FAINT)


def _percentiles_text(percentiles: Percentiles | None, width: int) -> Text:
    if percentiles is None:
        return Text("–", tables.FAINT)
    shown = (percentiles.p50, percentiles.p95, percentiles.p99)[: 3 if width > ROOMY_WIDTH else 2]
    return Text(" / ".join(format_duration(seconds) for seconds in shown))


def _waiting_text(queues: Sequence[QueueInsight]) -> Text:
    parts = []
    for name in ("ready", "scheduled", "running"):
        count = Count.sum(getattr(queue, name) for queue in queues)
        parts.append((f"{count} {name}", tables.STATE_COLOURS[name]))
    for name, colour in (("blocked", tables.STATE_COLOURS["blocked"]), ("late", "red")):
        if (count := Count.sum(getattr(queue, name) for queue in queues)).number:
            parts.append((f"{count} {name}", colour))
    line = Text("now: ", tables.FAINT)
    return line.append(Text(", ").join(Text(*part) for part in parts))


def _choose_window(windows: Sequence[Throughput]) -> Throughput | None:
    """Return the period whose tasks are shown: an hour, or else the shortest in which a job ended.

    Return None if no job ended in any period.
    """
    preferred = sorted(windows, key=lambda window: (window.window != 3600, window.window))
    return next((window for window in preferred if window.tasks), None)


def _window_name(seconds: float) -> str:
    return {60: "minute", 3600: "hour", 86_400: "day"}.get(round(seconds), format_duration(seconds))


def _health_page(health: Health) -> RenderableType:
    """Return a page with the health status, its causes, and the numbers of jobs and workers."""
    lines = [Text(health.status, HEALTH_STYLES[health.status])]
    lines += [Text(f"  {cause.status}: {cause.told}") for cause in health.causes[:MAX_CAUSES_SHOWN]]
    if more := health.causes[MAX_CAUSES_SHOWN:]:
        checks = Counter(cause.check for cause in more)
        counts = ", ".join(f"{number:,} of {check}" for check, number in checks.most_common())
        lines.append(Text(f"  and {len(more):,} more causes ({counts}); --json has all of them"))
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
