"""The workers: a line each."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from penstock.cli.screens import style
from penstock.cli.words import ago
from penstock.insights import WorkerInsight


def workers_table(
    workers: Sequence[WorkerInsight], width: int, *, title: str | None = None
) -> RenderableType:
    """Workers as a table; lost ones are marked."""
    if not workers:
        return style.nothing("No worker is alive. Start one: penstock work APP")
    sheet = style.Sheet(width, title=title)
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
            style="" if worker.is_alive else style.FAINT,
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
