"""`penstock schedules`: what enqueues by cron or by interval."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from penstock.cli.commands import Command, examples, group
from penstock.cli.duration import seconds
from penstock.cli.given import setting
from penstock.cli.output import Output
from penstock.cli.spread import spread
from penstock.cli.where import Where

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
    from penstock.cli.scheduling import show_all

    asyncio.run(show_all(after, limit, where, output))


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
    from penstock.cli.scheduling import show_one

    asyncio.run(show_one(name, ticks, fires, where, output))


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
    from penstock.cli.scheduling import change

    changes = when.changes()
    if not changes and not what.is_given:
        raise typer.BadParameter("nothing is to change: give at least one setting")
    asyncio.run(change(name, changes, what, where, output))


@app.command("pause", cls=Command)
@examples("penstock schedules pause nightly")
@spread
def pause_schedule(name: Name, where: Where, output: Output) -> None:
    """Let a schedule fire no more, until it is resumed."""
    from penstock.cli.scheduling import pause

    asyncio.run(pause(name, where, output))


@app.command("resume", cls=Command)
@examples("penstock schedules resume nightly")
@spread
def resume_schedule(name: Name, where: Where, output: Output) -> None:
    """Let a schedule fire again, from its next tick on."""
    from penstock.cli.scheduling import resume

    asyncio.run(resume(name, where, output))


@app.command("run", cls=Command)
@examples("penstock schedules run nightly")
@spread
def run_schedule(name: Name, where: Where, output: Output) -> None:
    """Enqueue a schedule's job now, out of turn."""
    from penstock.cli.scheduling import run

    asyncio.run(run(name, where, output))


@app.command("reset", cls=Command)
@examples("penstock schedules reset nightly")
@spread
def reset_schedule(name: Name, where: Where, output: Output) -> None:
    """Make a schedule what the code says again."""
    from penstock.cli.scheduling import reset

    asyncio.run(reset(name, where, output))


@app.command("remove", cls=Command)
@examples("penstock schedules remove nightly")
@spread
def remove_schedule(name: Name, where: Where, output: Output) -> None:
    """Remove a schedule; its jobs stay. One that code declares comes back: pause it instead."""
    from penstock.cli.scheduling import remove

    asyncio.run(remove(name, where, output))
