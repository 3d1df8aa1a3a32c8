"""Queues, their lanes and the workers: a line each."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from penstock.cli import tables
from penstock.cli.tables import ago, length
from penstock.insights import Count, LaneInsight, Lanes, QueueInsight, Window, WorkerInsight


def lanes_table(found: Lanes, width: int, *, title: str | None = None) -> RenderableType:
    """Lanes as a table: what waits in them, how often it is their turn, what holds them."""
    lanes = found.lanes
    if not lanes:
        return tables.nothing(f"No lane of the queue {found.queue} has jobs or settings.")
    has_limits = any(lane.limits for lane in lanes)
    sheet = tables.Sheet(width, title=title, fills=has_limits)
    sheet.column("lane", most=max(16, width // 4))
    sheet.column("", most=24, needed=any(held_lane(lane) for lane in lanes))
    for name in ("ready", "running", "late"):
        sheet.column(name, right=True)
    sheet.column("oldest waits" if width > 85 else "oldest", right=True)
    sheet.column("weight", right=True)
    sheet.column("limits", elastic=True, needed=has_limits)
    for lane in lanes:
        sheet.row(
            lane.name or Text("(no name)", tables.FAINT),
            Text(held_lane(lane), "yellow"),
            number(lane.ready, tables.STATES["ready"]),
            number(lane.running, tables.STATES["running"]),
            number(lane.late, "red"),
            "" if lane.waited is None else length(lane.waited),
            str(lane.weight),
            Text(", ".join(lane.limits), tables.FAINT),
        )
    return sheet.table


def held_lane(lane: LaneInsight) -> str:
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
    return Text(str(count), colour if count.number else tables.FAINT)


WORKERS_SHOWN = 3


def queues_table(
    queues: Sequence[QueueInsight], width: int, *, title: str | None = None
) -> RenderableType:
    """Queues as a table: what waits, for how long, and who serves it."""
    if not queues:
        return tables.nothing("No queue has jobs, workers or settings.")
    sheet = tables.Sheet(width, title=title)
    sheet.column("queue", most=max(16, width // 5))
    sheet.column("", most=24, needed=any(_held_queue(queue) for queue in queues))
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
            Text(_held_queue(queue), "yellow"),
            _count(queue.ready, tables.STATES["ready"]),
            _count(queue.scheduled, tables.STATES["scheduled"]),
            _count(queue.running, tables.STATES["running"]),
            _count(queue.blocked, tables.STATES["blocked"]),
            _count(queue.late, "red"),
            f"{queue.slots:,}" if queue.slots else Text("0", tables.FAINT),
            "" if queue.waited is None else length(queue.waited),
            _serving(queue),
        )
    return sheet.table


def _held_queue(queue: QueueInsight) -> str:
    return "paused" if queue.is_paused else closed(queue.window)


def _count(count: Count, colour: str) -> Text:
    return Text(str(count), colour if count.number else tables.FAINT)


def _serving(queue: QueueInsight) -> Text:
    if not queue.workers:
        needed = queue.ready.number or queue.scheduled.number
        return Text("none serves it" if needed else "none", "bold red" if needed else tables.FAINT)
    shown = ", ".join(queue.workers[:WORKERS_SHOWN])
    more = len(queue.workers) - WORKERS_SHOWN
    return Text(f"{shown} and {more} more" if more > 0 else shown, tables.FAINT)


def workers_table(
    workers: Sequence[WorkerInsight], width: int, *, title: str | None = None
) -> RenderableType:
    """Workers as a table; lost ones are marked."""
    if not workers:
        return tables.nothing("No worker is alive. Start one: penstock work APP")
    sheet = tables.Sheet(width, title=title)
    sheet.column("worker", most=max(18, width // 4))
    sheet.column("")
    sheet.column("running", right=True)
    sheet.column("children", right=True, above=95, needed=any(each.children for each in workers))
    sheet.column("started", right=True)
    sheet.column("heartbeat", right=True)
    sheet.column("host", most=24, above=115)
    sheet.column("pid", right=True, above=95)
    sheet.column("tenants", most=24, above=95, needed=any(_tenants(each) for each in workers))
    sheet.column("grants", most=30, above=115, needed=any(each.grants for each in workers))
    sheet.column("queues", elastic=True)
    for worker in workers:
        age = (worker.renewed_at - worker.started_at).total_seconds() + worker.silent
        sheet.row(
            worker.name,
            _mark(worker),
            f"{worker.running}/{worker.room:,}" if worker.room else str(worker.running),
            f"{worker.children}/{worker.children_most}" if worker.children else "",
            ago(age),
            ago(worker.silent),
            worker.host or "",
            "" if worker.pid is None else str(worker.pid),
            _tenants(worker),
            ", ".join(f"{each.key} ({each.slots})" for each in worker.grants),
            ", ".join(f"{name}:{slots}" for name, slots in worker.queues.items()),
            style="" if worker.is_alive else tables.FAINT,
        )
    return sheet.table


def _tenants(worker: WorkerInsight) -> str:
    """Those that it is dedicated to, or leaves to others; nothing if it serves all."""
    if worker.tenants is not None:
        return ", ".join(worker.tenants)
    return f"not {', '.join(worker.except_tenants)}" if worker.except_tenants else ""


def _mark(worker: WorkerInsight) -> Text:
    if not worker.is_alive:
        return Text("lost", "bold red")
    if worker.unwritten is not None:
        return Text("cannot write outcomes", "bold red")
    if worker.missing_resources:
        return Text("misses " + ", ".join(worker.missing_resources), "yellow")
    return Text("leader", "green") if worker.is_leader else Text("")
