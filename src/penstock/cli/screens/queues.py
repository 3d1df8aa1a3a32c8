"""Draw queues, lanes and workers as tables with a row for each."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from penstock.cli import tables
from penstock.cli.tables import format_age, format_duration
from penstock.insights import Count, LaneInsight, Lanes, QueueInsight, Window, WorkerInsight

MAX_WORKERS_SHOWN = 3


def lanes_table(page: Lanes, width: int, *, title: str | None = None) -> RenderableType:
    """Return lanes as a table: their jobs, weights and limits, and what keeps workers from them."""
    lanes = page.lanes
    if not lanes:
        return tables.empty_text(f"No lane of the queue {page.queue} has jobs or settings.")
    has_limits = any(lane.limits for lane in lanes)
    builder = tables.TableBuilder(width, title=title, fills=has_limits)
    builder.column("lane", max_width=max(16, width // 4))
    builder.column("", max_width=24, needed=any(_lane_hold(lane) for lane in lanes))
    for name in ("ready", "running", "late"):
        builder.column(name, align_right=True)
    builder.column("oldest waits" if width > 85 else "oldest", align_right=True)
    builder.column("weight", align_right=True)
    builder.column("limits", elastic=True, needed=has_limits)
    for lane in lanes:
        builder.row(
            lane.name or Text("(no name)", tables.FAINT),
            Text(_lane_hold(lane), "yellow"),
            _count_text(lane.ready, tables.STATE_COLOURS["ready"]),
            _count_text(lane.running, tables.STATE_COLOURS["running"]),
            _count_text(lane.late, "red"),
            "" if lane.waited is None else format_duration(lane.waited),
            str(lane.weight),
            Text(", ".join(lane.limits), tables.FAINT),
        )
    return builder.table


def _lane_hold(lane: LaneInsight) -> str:
    """Say what keeps workers from a lane. Return an empty string if they may take its jobs."""
    return "paused" if lane.is_paused else _closed_window(lane.window)


def _closed_window(window: Window) -> str:
    """Say for how long workers take no jobs. Return an empty string if the hours allow jobs now."""
    if window.is_open:
        return ""
    if window.changes_in is None:
        return "never open"
    return f"closed for {format_duration(window.changes_in)}"


def _count_text(count: Count, colour: str) -> Text:
    return Text(str(count), colour if count.number else tables.FAINT)


def queues_table(
    queues: Sequence[QueueInsight], width: int, *, title: str | None = None
) -> RenderableType:
    """Return queues as a table: their jobs, how long the oldest job waits, and their workers."""
    if not queues:
        return tables.empty_text("No queue has jobs, workers or settings.")
    builder = tables.TableBuilder(width, title=title)
    builder.column("queue", max_width=max(16, width // 5))
    builder.column("", max_width=24, needed=any(_queue_hold(queue) for queue in queues))
    for name in ("ready", "scheduled", "running"):
        builder.column(name, align_right=True)
    builder.column(
        "blocked", align_right=True, needed=any(queue.blocked.number for queue in queues)
    )
    builder.column("late", align_right=True, needed=any(queue.late.number for queue in queues))
    builder.column("slots", align_right=True, wider_than=85)
    builder.column("oldest waits" if width > 85 else "oldest", align_right=True)
    builder.column("workers", elastic=True)
    for queue in queues:
        builder.row(
            queue.name,
            Text(_queue_hold(queue), "yellow"),
            _count_text(queue.ready, tables.STATE_COLOURS["ready"]),
            _count_text(queue.scheduled, tables.STATE_COLOURS["scheduled"]),
            _count_text(queue.running, tables.STATE_COLOURS["running"]),
            _count_text(queue.blocked, tables.STATE_COLOURS["blocked"]),
            _count_text(queue.late, "red"),
            f"{queue.slots:,}" if queue.slots else Text("0", tables.FAINT),
            "" if queue.waited is None else format_duration(queue.waited),
            _workers_text(queue),
        )
    return builder.table


def _queue_hold(queue: QueueInsight) -> str:
    return "paused" if queue.is_paused else _closed_window(queue.window)


def _workers_text(queue: QueueInsight) -> Text:
    if not queue.workers:
        needed = queue.ready.number or queue.scheduled.number
        return Text("none serves it" if needed else "none", "bold red" if needed else tables.FAINT)
    shown = ", ".join(queue.workers[:MAX_WORKERS_SHOWN])
    more = len(queue.workers) - MAX_WORKERS_SHOWN
    return Text(f"{shown} and {more} more" if more > 0 else shown, tables.FAINT)


def workers_table(
    workers: Sequence[WorkerInsight], width: int, *, title: str | None = None
) -> RenderableType:
    """Return workers as a table; lost ones are marked."""
    if not workers:
        return tables.empty_text("No worker is alive. Start one: penstock work APP")
    builder = tables.TableBuilder(width, title=title)
    builder.column("worker", max_width=max(18, width // 4))
    builder.column("")
    builder.column("running", align_right=True)
    builder.column(
        "children",
        align_right=True,
        wider_than=95,
        needed=any(worker.children for worker in workers),
    )
    builder.column("started", align_right=True)
    builder.column("heartbeat", align_right=True)
    builder.column("host", max_width=24, wider_than=115)
    builder.column("pid", align_right=True, wider_than=95)
    builder.column(
        "tenants", max_width=24, wider_than=95, needed=any(_tenants(worker) for worker in workers)
    )
    builder.column(
        "grants", max_width=30, wider_than=115, needed=any(worker.grants for worker in workers)
    )
    builder.column("queues", elastic=True)
    for worker in workers:
        age = (worker.renewed_at - worker.started_at).total_seconds() + worker.silent
        builder.row(
            worker.name,
            _status_text(worker),
            f"{worker.running}/{worker.room:,}" if worker.room else str(worker.running),
            f"{worker.children}/{worker.children_most}" if worker.children else "",
            format_age(age),
            format_age(worker.silent),
            worker.host or "",
            "" if worker.pid is None else str(worker.pid),
            _tenants(worker),
            ", ".join(f"{grant.key} ({grant.slots})" for grant in worker.grants),
            ", ".join(f"{name}:{slots}" for name, slots in worker.queues.items()),
            style="" if worker.is_alive else tables.FAINT,
        )
    return builder.table


def _tenants(worker: WorkerInsight) -> str:
    """Name the tenants that a worker serves or excludes, or return an empty string for neither."""
    if worker.tenants is not None:
        return ", ".join(worker.tenants)
    return f"not {', '.join(worker.except_tenants)}" if worker.except_tenants else ""


def _status_text(worker: WorkerInsight) -> Text:
    if not worker.is_alive:
        return Text("lost", "bold red")
    if worker.unwritten is not None:
        return Text("cannot write outcomes", "bold red")
    if worker.missing_resources:
        return Text("misses " + ", ".join(worker.missing_resources), "yellow")
    return Text("leader", "green") if worker.is_leader else Text("")
