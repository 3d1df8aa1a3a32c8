"""Schedules: a table of all, or everything about one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from penstock.cli.screens import style
from penstock.cli.words import at, length
from penstock.groups.schedules import Fire, Schedule
from penstock.insights import WorkerInsight

WHY = {
    "running": "skipped: its last job ran",
    "waiting": "skipped: its last job waited",
    "missed": "missed",
}


def sentence(found: Schedule) -> str:
    """What a schedule does, in a line."""
    following = f", next at {at(found.next_at)} UTC" if found.next_at else ""
    return f"The schedule {found.name} enqueues {found.task} {when(found)}{following}."


def when(found: Schedule) -> str:
    """The rule of a schedule, in words."""
    if found.every is not None:
        return f"every {length(found.every)}"
    return f"by {found.cron} in {found.timezone}"


def is_known(found: Schedule, workers: Sequence[WorkerInsight]) -> bool:
    """Whether a living worker of its queue knows its task; one that names none may know any."""
    return any(
        not worker.tasks or found.task in worker.tasks
        for worker in workers
        if worker.is_alive and found.queue in worker.queues
    )


def schedules_table(
    found: Sequence[Schedule], workers: Sequence[WorkerInsight], width: int
) -> RenderableType:
    if not found:
        return style.nothing("There are no schedules.")
    sheet = style.Sheet(width, fills=False)
    # When it comes next is never cut: the others leave it its room.
    sheet.column("schedule", most=max(16, width // 4))
    sheet.column("task", most=max(16, width // 4), above=100)
    sheet.column("when", most=max(20, width // 3))
    sheet.column("next (UTC)")
    sheet.column("last (UTC)", above=100)
    sheet.column("", above=80)
    for each in found:
        remarks = _remarks(each, workers)
        sheet.row(each.name, each.task, when(each), _next(each), _last(each), remarks)
    return sheet.table


def schedule_page(
    found: Schedule,
    workers: Sequence[WorkerInsight],
    upcoming: Sequence[datetime],
    fires: Sequence[Fire],
) -> RenderableType:
    """All that is known about a schedule: what it does, what it will do, what it did."""
    title = Text.assemble(("Schedule ", "bold"), (found.name, "bold"), "  ", (found.task, "cyan"))
    parts: list[RenderableType] = [title, _facts(found, workers)]
    if upcoming:
        ticks = Text("\n").join(Text(f"  {at(tick)} UTC") for tick in upcoming)
        parts += [Text(), Text("next", "bold"), ticks]
    if fires:
        parts += [Text(), Text("last", "bold"), Padding(_fires(fires), (0, 0, 0, 2))]
    return Group(*parts)


def _facts(found: Schedule, workers: Sequence[WorkerInsight]) -> Table:
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style=style.FAINT, no_wrap=True)
    facts.add_column()
    for name, value in _named(found, workers):
        if value:
            facts.add_row(f"  {name}", value)
    return facts


def _named(
    found: Schedule, workers: Sequence[WorkerInsight]
) -> Iterator[tuple[str, RenderableType | None]]:
    yield "state", _remarks(found, workers)
    yield "when", when(found)
    yield "jitter", f"up to {length(found.jitter)}" if found.jitter else None
    yield "on start", "also when a leader takes office" if found.on_start else None
    yield "overlap", found.overlap
    yield "catch-up", found.catch_up
    yield "queue", found.queue
    yield "tenant", found.tenant
    yield "arguments", msgspec.json.encode(found.args).decode() if found.args else None
    yield "source", f"code, {found.wins} wins" if found.source == "code" else "made at run time"


def _fires(fires: Sequence[Fire]) -> Table:
    table = Table.grid(padding=(0, 2))
    for fire in fires:
        table.add_row(
            Text(f"{at(fire.tick)} UTC", style.FAINT),
            Text("" if fire.kind == "tick" else fire.kind, style.FAINT),
            _came_of(fire),
        )
    return table


def _came_of(fire: Fire) -> Text:
    ticks = f" ({fire.ticks:,} ticks)" if fire.ticks > 1 else ""
    if fire.job is None:
        return Text(f"{WHY[fire.why or 'missed']}{ticks}", "yellow")
    job = Text(f"job {fire.job}{ticks} ")
    return (
        job.append_text(style.state(fire.state)) if fire.state else job.append("gone", style.FAINT)
    )


def _next(found: Schedule) -> Text:
    return Text(at(found.next_at)) if found.next_at else Text("never", style.FAINT)


def _last(found: Schedule) -> Text:
    if found.last_tick is None:
        return Text("")
    came_of = f"job {found.last_job}" if found.last_job else WHY[found.last_why or "missed"]
    return Text(f"{at(found.last_tick)} {came_of}", "" if found.last_job else "yellow")


def _remarks(found: Schedule, workers: Sequence[WorkerInsight]) -> Text:
    # Where nobody works at all, that is not the schedule's trouble.
    is_served = any(worker.is_alive for worker in workers)
    remarks = [
        "paused" if found.paused_at else None,
        None if found.is_active else "no worker declares it",
        "edited" if found.edited_at else None,
        "no worker knows its task" if is_served and not is_known(found, workers) else None,
    ]
    return Text(", ".join(filter(None, remarks)), "yellow")
