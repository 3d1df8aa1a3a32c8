"""`penstock schedules`: read, change, pause and run schedules."""

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
from penstock.cli.database import current_user, open_queue
from penstock.cli.framework import Command, examples, expand_options, group
from penstock.cli.options import DatabaseOptions, parse_duration
from penstock.cli.output import Output, say, terminal
from penstock.cli.requests import (
    MakeRequest,
    open_queue_and_requests,
    parse_json_object,
    request_by_name,
)
from penstock.cli.settings import to_setting
from penstock.cli.tables import format_duration, format_time
from penstock.errors import ScheduleNotFound
from penstock.groups.schedules import Fire, Schedule
from penstock.insights import WorkerInsight
from penstock.store.enqueue import parts_to_keep

app = group("schedules", help="Look at schedules, change, pause and run them.")

Name = Annotated[str, typer.Argument(metavar="SCHEDULE", help="The schedule by its name.")]

SKIP_REASONS = {
    "running": "skipped: its last job ran",
    "waiting": "skipped: its last job waited",
    "missed": "missed",
}


def _schedule_option(help: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, show_default=False, **more)


@dataclass(frozen=True)
class CallOptions:
    """The task that a schedule enqueues, with its arguments and options."""

    task: Annotated[str | None, _schedule_option("The task's name, such as shop.jobs.report.")] = (
        None
    )
    args: Annotated[
        str | None, _schedule_option("Its arguments as a JSON object.", metavar="JSON")
    ] = None
    app: Annotated[
        str | None,
        _schedule_option("Check the arguments against this app's task, and take its settings."),
    ] = None
    queue: Annotated[str | None, _schedule_option("The queue; the task's own, or default.")] = None
    priority: Annotated[int | None, _schedule_option("-100 to 100; higher runs first.")] = None
    tenant: Annotated[str | None, _schedule_option("Whose jobs they are.")] = None

    def options(self) -> dict[str, Any]:
        """Return the job options that the user gave, as keyword arguments for the request."""
        options = {"queue": self.queue, "priority": self.priority, "tenant": self.tenant}
        return {name: value for name, value in options.items() if value is not None}

    @property
    def is_given(self) -> bool:
        return self.task is not None or self.args is not None or bool(self.options())


@dataclass(frozen=True)
class TimingOptions:
    """When a schedule fires, and what happens to ticks that overlap or were missed."""

    cron: Annotated[
        str | None,
        _schedule_option(
            "Five fields, or six with seconds first: '0 3 * * *'; or @daily and the like."
        ),
    ] = None
    every: Annotated[
        float | None,
        _schedule_option("An interval instead of cron.", parser=parse_duration, metavar="DURATION"),
    ] = None
    timezone: Annotated[
        str | None, _schedule_option("The time zone of the cron.", metavar="ZONE")
    ] = None
    jitter: Annotated[
        float | None,
        _schedule_option(
            "Up to so much later, another for each tick.", parser=parse_duration, metavar="DURATION"
        ),
    ] = None
    overlap: Annotated[
        str | None, _schedule_option("While its last job lives: skip, queue_one or allow.")
    ] = None
    catch_up: Annotated[str | None, _schedule_option("With missed ticks: skip, once or all.")] = (
        None
    )
    on_start: Annotated[
        bool | None,
        _schedule_option("Also when a leader takes office.", "--on-start/--no-on-start"),
    ] = None

    def changes(self) -> dict[str, Any]:
        """Return the options that the user gave, as keyword arguments for the client."""
        return {
            name: value
            for name, value in ((name, to_setting(value)) for name, value in vars(self).items())
            if value is not ...
        }


@app.command("list", cls=Command)
@examples("penstock schedules list --json")
@expand_options
def list_schedules(
    *,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 100,
    after: Annotated[
        str | None, _schedule_option("Those whose names come after this.", metavar="SCHEDULE")
    ] = None,
    db: DatabaseOptions,
    output: Output,
) -> None:
    """List the schedules: what each enqueues, when next, and what came of its last tick."""
    asyncio.run(_list_schedules(after, limit, db, output))


@app.command("show", cls=Command)
@examples("penstock schedules show nightly --fires 50")
@expand_options
def show_schedule(
    *,
    name: Name,
    ticks: Annotated[int, typer.Option(min=0, max=100, help="How many of the next ticks.")] = 5,
    fires: Annotated[int, typer.Option(min=0, max=1000, help="How many of the last ones.")] = 10,
    db: DatabaseOptions,
    output: Output,
) -> None:
    """Show a schedule, its next ticks, and what came of the last: a job, or why there is none."""
    asyncio.run(_show_schedule(name, ticks, fires, db, output))


@app.command("set", cls=Command)
@examples(
    "penstock schedules set nightly --cron '0 4 * * *' --timezone Europe/Berlin",
    """penstock schedules set hello --app shop --task shop.greet --args '{"name": "Ada"}' """
    "--every 10m --jitter 1m",
)
@expand_options
def set_schedule(
    *, name: Name, timing: TimingOptions, call: CallOptions, db: DatabaseOptions, output: Output
) -> None:
    """Change a schedule, or make one; what is not given stays as it is.

    A change of one that code declares stays until `penstock schedules reset`.
    """
    changes = timing.changes()
    if not changes and not call.is_given:
        raise typer.BadParameter("nothing to change: give at least one setting")
    asyncio.run(_set_schedule(name, changes, call, db, output))


@app.command("pause", cls=Command)
@examples("penstock schedules pause nightly")
@expand_options
def pause_schedule(name: Name, db: DatabaseOptions, output: Output) -> None:
    """Let a schedule fire no more, until it is resumed."""
    asyncio.run(_pause_schedule(name, db, output))


@app.command("resume", cls=Command)
@examples("penstock schedules resume nightly")
@expand_options
def resume_schedule(name: Name, db: DatabaseOptions, output: Output) -> None:
    """Let a schedule fire again, from its next tick on."""
    asyncio.run(_resume_schedule(name, db, output))


@app.command("run", cls=Command)
@examples("penstock schedules run nightly")
@expand_options
def run_schedule(name: Name, db: DatabaseOptions, output: Output) -> None:
    """Enqueue a schedule's job now, out of turn."""
    asyncio.run(_run_schedule(name, db, output))


@app.command("reset", cls=Command)
@examples("penstock schedules reset nightly")
@expand_options
def reset_schedule(name: Name, db: DatabaseOptions, output: Output) -> None:
    """Make a schedule what the code says again."""
    asyncio.run(_reset_schedule(name, db, output))


@app.command("remove", cls=Command)
@examples("penstock schedules remove nightly")
@expand_options
def remove_schedule(name: Name, db: DatabaseOptions, output: Output) -> None:
    """Remove a schedule; its jobs stay. One that code declares comes back: pause it instead."""
    asyncio.run(_remove_schedule(name, db, output))


def _sentence(schedule: Schedule) -> str:
    """Say in one line what a schedule does."""
    next_time = f", next at {format_time(schedule.next_at)} UTC" if schedule.next_at else ""
    return f"The schedule {schedule.name} enqueues {schedule.task} {_rule(schedule)}{next_time}."


def _rule(schedule: Schedule) -> str:
    """Describe when a schedule fires: its interval, or its cron expression and time zone."""
    if schedule.every is not None:
        return f"every {format_duration(schedule.every)}"
    return f"by {schedule.cron} in {schedule.timezone}"


def _is_known(schedule: Schedule, workers: Sequence[WorkerInsight]) -> bool:
    """Return whether a live worker serves the schedule's queue and knows the schedule's task.

    A worker that reports no tasks may know any task, so it counts as one that knows this task.
    """
    return any(
        not worker.tasks or schedule.task in worker.tasks
        for worker in workers
        if worker.is_alive and schedule.queue in worker.queues
    )


def _schedules_table(
    schedules: Sequence[Schedule], workers: Sequence[WorkerInsight], width: int
) -> RenderableType:
    if not schedules:
        return tables.empty_text("There are no schedules.")
    builder = tables.TableBuilder(width, fills=False)
    # The next time is never cut: the other columns leave room for it.
    builder.column("schedule", max_width=max(16, width // 4))
    builder.column("task", max_width=max(16, width // 4), wider_than=100)
    builder.column("when", max_width=max(20, width // 3))
    builder.column("next (UTC)")
    builder.column("last (UTC)", wider_than=100)
    builder.column("", wider_than=80)
    for schedule in schedules:
        remarks = _remarks_text(schedule, workers)
        builder.row(
            schedule.name,
            schedule.task,
            _rule(schedule),
            _next_text(schedule),
            _last_text(schedule),
            remarks,
        )
    return builder.table


def _schedule_page(
    schedule: Schedule,
    workers: Sequence[WorkerInsight],
    upcoming: Sequence[datetime],
    fires: Sequence[Fire],
) -> RenderableType:
    """Return everything about a schedule: its settings, next ticks and last fires."""
    title = Text.assemble(
        ("Schedule ", "bold"), (schedule.name, "bold"), "  ", (schedule.task, "cyan")
    )
    parts: list[RenderableType] = [title, _facts(schedule, workers)]
    if upcoming:
        ticks = Text("\n").join(Text(f"  {format_time(tick)} UTC") for tick in upcoming)
        parts += [Text(), Text("next", "bold"), ticks]
    if fires:
        parts += [Text(), Text("last", "bold"), Padding(_fires(fires), (0, 0, 0, 2))]
    return Group(*parts)


def _facts(schedule: Schedule, workers: Sequence[WorkerInsight]) -> Table:
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style=tables.FAINT, no_wrap=True)
    facts.add_column()
    for name, value in _fact_rows(schedule, workers):
        if value:
            facts.add_row(f"  {name}", value)
    return facts


def _fact_rows(
    schedule: Schedule, workers: Sequence[WorkerInsight]
) -> Iterator[tuple[str, RenderableType | None]]:
    yield "state", _remarks_text(schedule, workers)
    yield "when", _rule(schedule)
    yield "jitter", f"up to {format_duration(schedule.jitter)}" if schedule.jitter else None
    yield "on start", "also when a leader takes office" if schedule.on_start else None
    yield "overlap", schedule.overlap
    yield "catch-up", schedule.catch_up
    yield "queue", schedule.queue
    yield "tenant", schedule.tenant
    yield "arguments", msgspec.json.encode(schedule.args).decode() if schedule.args else None
    yield (
        "source",
        f"code, {schedule.wins} wins" if schedule.source == "code" else "made at run time",
    )


def _fires(fires: Sequence[Fire]) -> Table:
    table = Table.grid(padding=(0, 2))
    for fire in fires:
        table.add_row(
            Text(f"{format_time(fire.tick)} UTC", tables.FAINT),
            Text("" if fire.kind == "tick" else fire.kind, tables.FAINT),
            _fire_result(fire),
        )
    return table


def _fire_result(fire: Fire) -> Text:
    ticks = f" ({fire.ticks:,} ticks)" if fire.ticks > 1 else ""
    if fire.job is None:
        return Text(f"{SKIP_REASONS[fire.why or 'missed']}{ticks}", "yellow")
    job = Text(f"job {fire.job}{ticks} ")
    return (
        job.append_text(tables.state_text(fire.state))
        if fire.state
        else job.append("gone", tables.FAINT)
    )


def _next_text(schedule: Schedule) -> Text:
    return Text(format_time(schedule.next_at)) if schedule.next_at else Text("never", tables.FAINT)


def _last_text(schedule: Schedule) -> Text:
    if schedule.last_tick is None:
        return Text("")
    result = (
        f"job {schedule.last_job}"
        if schedule.last_job
        else SKIP_REASONS[schedule.last_why or "missed"]
    )
    return Text(
        f"{format_time(schedule.last_tick)} {result}", "" if schedule.last_job else "yellow"
    )


def _remarks_text(schedule: Schedule, workers: Sequence[WorkerInsight]) -> Text:
    # Without any living worker, an unknown task is no problem of the schedule.
    is_served = any(worker.is_alive for worker in workers)
    remarks = [
        "paused" if schedule.paused_at else None,
        None if schedule.is_active else "no worker declares it",
        "edited" if schedule.edited_at else None,
        "no worker knows its task" if is_served and not _is_known(schedule, workers) else None,
    ]
    return Text(", ".join(filter(None, remarks)), "yellow")


async def _list_schedules(
    after: str | None, limit: int, db: DatabaseOptions, output: Output
) -> None:
    async with open_queue(db) as queue:
        schedules = await queue.app.schedules(after=after, limit=limit)
        workers = await queue.insights.workers()
    next_name = schedules[-1].name if len(schedules) == limit else None
    document = {"schedules": schedules, "after": next_name}
    output.show(document, lambda: _schedules_table(schedules, workers, terminal().width))
    if next_name is not None and not output.as_json:
        say(f"There may be more: --after {next_name}")


async def _show_schedule(
    name: str, ticks: int, fires: int, db: DatabaseOptions, output: Output
) -> None:
    async with open_queue(db) as queue:
        schedule = await queue.app.get_schedule(name)
        last_fires = await queue.app.schedule_fires(name, limit=fires) if fires else []
        workers = await queue.insights.workers()
    upcoming = schedule.upcoming(ticks) if schedule.next_at else []
    document = msgspec.to_builtins(schedule) | {"upcoming": upcoming, "fires": last_fires}
    output.show(document, lambda: _schedule_page(schedule, workers, upcoming, last_fires))


async def _set_schedule(
    name: str,
    changes: dict[str, Any],
    call: CallOptions,
    db: DatabaseOptions,
    output: Output,
) -> None:
    async with open_queue_and_requests(call.app, db) as (queue, make):
        if call.is_given:
            changes |= _request(call, await _find_schedule(queue.app, name), make)
        schedule = await queue.for_all_tenants().app.set_schedule(
            name, **changes, by=current_user()
        )
        workers = await queue.insights.workers()
    _warn_if_idle(schedule, workers)
    output.show(schedule, lambda: _sentence(schedule))


def _request(call: CallOptions, current: Schedule | None, make: MakeRequest) -> dict[str, Any]:
    """Return `what` the schedule enqueues, and which parts of its present request to `keep`."""
    task = call.task or (current.task if current else None)
    if task is None:
        raise typer.BadParameter(
            "there is no schedule of this name yet; to create it, give --task as well"
        )
    if current is not None and task == current.task and call.args is None:
        kept_options = parts_to_keep(call.options(), is_other_call=False)
        # The arguments stay as they are stored, perhaps for an earlier version of the task.
        return {"what": request_by_name(task, current.args, call.options()), "keep": kept_options}
    arguments = current.args if current else {}
    if call.args is not None:
        arguments = parse_json_object(call.args, "The text of the arguments")
    kept_options = parts_to_keep(call.options(), is_other_call=True)
    return {"what": make(task, arguments, call.options()), "keep": kept_options}


async def _find_schedule(app: Penstock, name: str) -> Schedule | None:
    try:
        return await app.get_schedule(name)
    except ScheduleNotFound:
        return None


async def _pause_schedule(name: str, db: DatabaseOptions, output: Output) -> None:
    async with open_queue(db) as queue:
        await queue.app.pause_schedule(name, by=current_user())
    document = {"name": name, "paused": True}
    output.show(document, lambda: f"The schedule {name} is paused.")


async def _resume_schedule(name: str, db: DatabaseOptions, output: Output) -> None:
    async with open_queue(db) as queue:
        await queue.app.resume_schedule(name, by=current_user())
        schedule = await queue.app.get_schedule(name)
        workers = await queue.insights.workers()
    _warn_if_idle(schedule, workers)
    output.show({"name": name, "paused": False}, lambda: _sentence(schedule))


async def _run_schedule(name: str, db: DatabaseOptions, output: Output) -> None:
    async with open_queue(db) as queue:
        job = await queue.app.run_schedule(name, by=current_user())
    document = {"name": name, "job": job.id}
    output.show(document, lambda: f"Job {job.id} of the schedule {name} was enqueued.")


async def _reset_schedule(name: str, db: DatabaseOptions, output: Output) -> None:
    async with open_queue(db) as queue:
        schedule = await queue.app.reset_schedule(name, by=current_user())
        workers = await queue.insights.workers()
    _warn_if_idle(schedule, workers)
    output.show(schedule, lambda: _sentence(schedule))


async def _remove_schedule(name: str, db: DatabaseOptions, output: Output) -> None:
    async with open_queue(db) as queue:
        schedule = await queue.app.get_schedule(name)
        if not await queue.app.remove_schedule(name, by=current_user()):
            raise ScheduleNotFound(name)
    output.show({"name": name, "removed": True}, lambda: f"The schedule {name} was removed.")
    if schedule.source == "code":
        say(
            f"Code declares the schedule {name}, so the next worker that starts with that code "
            "creates it again. Remove it from the code, or pause the schedule instead."
        )


def _warn_if_idle(schedule: Schedule, workers: Sequence[WorkerInsight]) -> None:
    if schedule.paused_at is not None:
        say(
            f"The schedule {schedule.name} is paused. To let it fire, run `penstock schedules "
            f"resume {schedule.name}`."
        )
    elif not schedule.is_active:
        say(
            "No living worker declares this schedule. It fires once a worker with its code has "
            "started."
        )
    elif not _is_known(schedule, workers):
        say(f"No living worker knows the task {schedule.task}: its jobs wait until one does.")
