"""`penstock schedules`: what enqueues by cron or by interval."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from penstock.app.app import Penstock
from penstock.cli import tables
from penstock.cli.database import reached, user
from penstock.cli.framework import Command, examples, group, spread
from penstock.cli.options import Where, seconds
from penstock.cli.output import Output, say, terminal
from penstock.cli.requests import MakeRequest, by_name, object_from, reached_making
from penstock.cli.settings import setting
from penstock.cli.tables import at, length
from penstock.errors import ScheduleNotFound
from penstock.groups.schedules import Fire, Schedule
from penstock.insights import WorkerInsight
from penstock.store.enqueue import parts_to_keep

app = group("schedules", help="Look at schedules, change, pause and run them.")

Name = Annotated[str, typer.Argument(metavar="SCHEDULE", help="The schedule by its name.")]


def _option(help: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, show_default=False, **more)


@dataclass(frozen=True)
class What:
    """What a schedule enqueues."""

    task: Annotated[str | None, _option("The task's name, such as shop.jobs.report.")] = None
    args: Annotated[str | None, _option("Its arguments as a JSON object.", metavar="JSON")] = None
    app: Annotated[
        str | None,
        _option("Check the arguments against this app's task, and take its settings."),
    ] = None
    queue: Annotated[str | None, _option("The queue; the task's own, or default.")] = None
    priority: Annotated[int | None, _option("-100 to 100; higher runs first.")] = None
    tenant: Annotated[str | None, _option("Whose jobs they are.")] = None

    def options(self) -> dict[str, Any]:
        """The options that the command line sets."""
        given = {"queue": self.queue, "priority": self.priority, "tenant": self.tenant}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def is_given(self) -> bool:
        return self.task is not None or self.args is not None or bool(self.options())


@dataclass(frozen=True)
class When:
    """When a schedule fires, and what becomes of ticks that overlap or were missed."""

    cron: Annotated[
        str | None,
        _option("Five fields, or six with seconds first: '0 3 * * *'; or @daily and the like."),
    ] = None
    every: Annotated[
        float | None, _option("An interval instead of cron.", parser=seconds, metavar="DURATION")
    ] = None
    timezone: Annotated[str | None, _option("The time zone of the cron.", metavar="ZONE")] = None
    jitter: Annotated[
        float | None,
        _option("Up to so much later, another for each tick.", parser=seconds, metavar="DURATION"),
    ] = None
    overlap: Annotated[
        str | None, _option("While its last job lives: skip, queue_one or allow.")
    ] = None
    catch_up: Annotated[str | None, _option("With missed ticks: skip, once or all.")] = None
    on_start: Annotated[
        bool | None, _option("Also when a leader takes office.", "--on-start/--no-on-start")
    ] = None

    def changes(self) -> dict[str, Any]:
        """Those that are given, as the client takes them."""
        return {
            name: value
            for name, value in ((name, setting(value)) for name, value in vars(self).items())
            if value is not ...
        }


@app.command("list", cls=Command)
@examples("penstock schedules list --json")
@spread
def list_schedules(
    *,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 100,
    after: Annotated[
        str | None, _option("Those whose names come after this.", metavar="SCHEDULE")
    ] = None,
    where: Where,
    output: Output,
) -> None:
    """List the schedules: what each enqueues, when next, and what came of its last tick."""
    asyncio.run(_list_schedules(after, limit, where, output))


@app.command("show", cls=Command)
@examples("penstock schedules show nightly --fires 50")
@spread
def show_schedule(
    *,
    name: Name,
    ticks: Annotated[int, typer.Option(min=0, max=100, help="How many of the next ticks.")] = 5,
    fires: Annotated[int, typer.Option(min=0, max=1000, help="How many of the last ones.")] = 10,
    where: Where,
    output: Output,
) -> None:
    """Show a schedule, its next ticks, and what came of the last: a job, or why there is none."""
    asyncio.run(_show_schedule(name, ticks, fires, where, output))


@app.command("set", cls=Command)
@examples(
    "penstock schedules set nightly --cron '0 4 * * *' --timezone Europe/Berlin",
    """penstock schedules set hello --app shop --task shop.greet --args '{"name": "Ada"}' """
    "--every 10m --jitter 1m",
)
@spread
def set_schedule(*, name: Name, when: When, what: What, where: Where, output: Output) -> None:
    """Change a schedule, or make one; what is not given stays as it is.

    A change of one that code declares stays until `penstock schedules reset`.
    """
    changes = when.changes()
    if not changes and not what.is_given:
        raise typer.BadParameter("nothing is to change: give at least one setting")
    asyncio.run(_set_schedule(name, changes, what, where, output))


@app.command("pause", cls=Command)
@examples("penstock schedules pause nightly")
@spread
def pause_schedule(name: Name, where: Where, output: Output) -> None:
    """Let a schedule fire no more, until it is resumed."""
    asyncio.run(_pause_schedule(name, where, output))


@app.command("resume", cls=Command)
@examples("penstock schedules resume nightly")
@spread
def resume_schedule(name: Name, where: Where, output: Output) -> None:
    """Let a schedule fire again, from its next tick on."""
    asyncio.run(_resume_schedule(name, where, output))


@app.command("run", cls=Command)
@examples("penstock schedules run nightly")
@spread
def run_schedule(name: Name, where: Where, output: Output) -> None:
    """Enqueue a schedule's job now, out of turn."""
    asyncio.run(_run_schedule(name, where, output))


@app.command("reset", cls=Command)
@examples("penstock schedules reset nightly")
@spread
def reset_schedule(name: Name, where: Where, output: Output) -> None:
    """Make a schedule what the code says again."""
    asyncio.run(_reset_schedule(name, where, output))


@app.command("remove", cls=Command)
@examples("penstock schedules remove nightly")
@spread
def remove_schedule(name: Name, where: Where, output: Output) -> None:
    """Remove a schedule; its jobs stay. One that code declares comes back: pause it instead."""
    asyncio.run(_remove_schedule(name, where, output))


WHY = {
    "running": "skipped: its last job ran",
    "waiting": "skipped: its last job waited",
    "missed": "missed",
}


def _sentence(found: Schedule) -> str:
    """What a schedule does, in a line."""
    following = f", next at {at(found.next_at)} UTC" if found.next_at else ""
    return f"The schedule {found.name} enqueues {found.task} {_rule(found)}{following}."


def _rule(found: Schedule) -> str:
    """The rule of a schedule, in words."""
    if found.every is not None:
        return f"every {length(found.every)}"
    return f"by {found.cron} in {found.timezone}"


def _is_known(found: Schedule, workers: Sequence[WorkerInsight]) -> bool:
    """Whether a living worker of its queue knows its task; one that names none may know any."""
    return any(
        not worker.tasks or found.task in worker.tasks
        for worker in workers
        if worker.is_alive and found.queue in worker.queues
    )


def _schedules_table(
    found: Sequence[Schedule], workers: Sequence[WorkerInsight], width: int
) -> RenderableType:
    if not found:
        return tables.nothing("There are no schedules.")
    sheet = tables.Sheet(width, fills=False)
    # When it comes next is never cut: the others leave it its room.
    sheet.column("schedule", most=max(16, width // 4))
    sheet.column("task", most=max(16, width // 4), above=100)
    sheet.column("when", most=max(20, width // 3))
    sheet.column("next (UTC)")
    sheet.column("last (UTC)", above=100)
    sheet.column("", above=80)
    for each in found:
        remarks = _remarks(each, workers)
        sheet.row(each.name, each.task, _rule(each), _next(each), _last(each), remarks)
    return sheet.table


def _schedule_page(
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
    facts.add_column(style=tables.FAINT, no_wrap=True)
    facts.add_column()
    for name, value in _named(found, workers):
        if value:
            facts.add_row(f"  {name}", value)
    return facts


def _named(
    found: Schedule, workers: Sequence[WorkerInsight]
) -> Iterator[tuple[str, RenderableType | None]]:
    yield "state", _remarks(found, workers)
    yield "when", _rule(found)
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
            Text(f"{at(fire.tick)} UTC", tables.FAINT),
            Text("" if fire.kind == "tick" else fire.kind, tables.FAINT),
            _came_of(fire),
        )
    return table


def _came_of(fire: Fire) -> Text:
    ticks = f" ({fire.ticks:,} ticks)" if fire.ticks > 1 else ""
    if fire.job is None:
        return Text(f"{WHY[fire.why or 'missed']}{ticks}", "yellow")
    job = Text(f"job {fire.job}{ticks} ")
    return (
        job.append_text(tables.state(fire.state))
        if fire.state
        else job.append("gone", tables.FAINT)
    )


def _next(found: Schedule) -> Text:
    return Text(at(found.next_at)) if found.next_at else Text("never", tables.FAINT)


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
        "no worker knows its task" if is_served and not _is_known(found, workers) else None,
    ]
    return Text(", ".join(filter(None, remarks)), "yellow")


async def _list_schedules(after: str | None, limit: int, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        found = await queue.app.schedules(after=after, limit=limit)
        workers = await queue.insights.workers()
    following = found[-1].name if len(found) == limit else None
    document = {"schedules": found, "after": following}
    output.show(document, lambda: _schedules_table(found, workers, terminal().width))
    if following is not None and not output.as_json:
        say(f"There may be more: --after {following}")


async def _show_schedule(name: str, ticks: int, fires: int, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        found = await queue.app.get_schedule(name)
        last = await queue.app.schedule_fires(name, limit=fires) if fires else []
        workers = await queue.insights.workers()
    upcoming = found.upcoming(ticks) if found.next_at else []
    document = msgspec.to_builtins(found) | {"upcoming": upcoming, "fires": last}
    output.show(document, lambda: _schedule_page(found, workers, upcoming, last))


async def _set_schedule(
    name: str,
    changes: dict[str, Any],
    what: What,
    where: Where,
    output: Output,
) -> None:
    async with reached_making(what.app, where) as (queue, make):
        if what.is_given:
            changes |= _request(what, await _present(queue.app, name), make)
        found = await queue.for_owner().app.set_schedule(name, **changes, by=user())
        workers = await queue.insights.workers()
    _remark_on(found, workers)
    output.show(found, lambda: _sentence(found))


def _request(what: What, now: Schedule | None, make: MakeRequest) -> dict[str, Any]:
    """The new request of a schedule, and the parts of its present request that stay."""
    task = what.task or (now.task if now else None)
    if task is None:
        raise typer.BadParameter("there is no such schedule yet: give --task as well")
    if now is not None and task == now.task and what.args is None:
        kept = parts_to_keep(what.options(), is_other_call=False)
        # The arguments stay as stored, perhaps in the form of an earlier version of the task.
        return {"what": by_name(task, now.args, what.options()), "keep": kept}
    arguments = now.args if now else {}
    if what.args is not None:
        arguments = object_from(what.args, "What is given as arguments")
    kept = parts_to_keep(what.options(), is_other_call=True)
    return {"what": make(task, arguments, what.options()), "keep": kept}


async def _present(app: Penstock, name: str) -> Schedule | None:
    try:
        return await app.get_schedule(name)
    except ScheduleNotFound:
        return None


async def _pause_schedule(name: str, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        await queue.app.pause_schedule(name, by=user())
    document = {"name": name, "paused": True}
    output.show(document, lambda: f"The schedule {name} is paused.")


async def _resume_schedule(name: str, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        await queue.app.resume_schedule(name, by=user())
        found = await queue.app.get_schedule(name)
        workers = await queue.insights.workers()
    _remark_on(found, workers)
    output.show({"name": name, "paused": False}, lambda: _sentence(found))


async def _run_schedule(name: str, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        job = await queue.app.run_schedule(name, by=user())
    document = {"name": name, "job": job.id}
    output.show(document, lambda: f"Job {job.id} of the schedule {name} was enqueued.")


async def _reset_schedule(name: str, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        found = await queue.app.reset_schedule(name, by=user())
        workers = await queue.insights.workers()
    _remark_on(found, workers)
    output.show(found, lambda: _sentence(found))


async def _remove_schedule(name: str, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        found = await queue.app.get_schedule(name)
        if not await queue.app.remove_schedule(name, by=user()):
            raise ScheduleNotFound(name)
    output.show({"name": name, "removed": True}, lambda: f"The schedule {name} was removed.")
    if found.source == "code":
        say(
            f"Code declares {name}: the next worker with that code brings it back when it starts. "
            "Take it out of the code, or pause it instead."
        )


def _remark_on(found: Schedule, workers: Sequence[WorkerInsight]) -> None:
    if found.paused_at is not None:
        say(f"It is paused: `penstock schedules resume {found.name}` lets it fire.")
    elif not found.is_active:
        say("No living worker declares it: it fires once a worker with its code has started.")
    elif not _is_known(found, workers):
        say(f"No living worker knows the task {found.task}: its jobs wait until one does.")
