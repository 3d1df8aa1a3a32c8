"""The root command: it knows the names of all commands, and imports one when it runs."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from penstock.cli import applications
from penstock.cli.framework import Commands, LazyCommand, group

# Shells set this variable to ask for completions.
COMPLETION_VARIABLE = "_PENSTOCK_COMPLETE"
# Each command's module and function, and its line in the help of the root, in that order.
COMMANDS = {
    "up": ("serve:up", "Start all in one process: database, worker and API."),
    "work": ("work:work", "Run the jobs of an app."),
    "serve": ("serve:serve", "Serve the HTTP API of an app, and run none of its jobs."),
    "enqueue": ("enqueue:enqueue", "Enqueue a job, or many."),
    "jobs": ("jobs:app", "Look at jobs; retry, unblock, cancel or delete them."),
    "dead": (
        "failed:app",
        "Look at jobs that failed, bring them back or erase them. "
        "`penstock jobs show ID` has all attempts of one.",
    ),
    "batches": (
        "batches:app",
        "Look at batches, wait for them, close, cancel or retry them. "
        "`penstock jobs list --batch ID` has the jobs of one.",
    ),
    "workflows": ("workflows:app", "Look at workflows, wait for, cancel or retry them."),
    "schedules": ("schedules:app", "Look at schedules, change, pause and run them."),
    "events": ("events:app", "Send events to jobs that wait for them; list them."),
    "queues": ("queues:app", "Look at queues, pause, resume and change them."),
    "lanes": ("queues:lanes", "Look at lanes, which take turns, and change them."),
    "limits": ("limits:app", "Look at limits, change, close and open them."),
    "plans": ("tenants:plans", "Look at the plans of tenants, and change them."),
    "tenants": ("tenants:app", "Look at tenants' plans, and change them."),
    "retention": ("retention:app", "Look at how long ended jobs are kept, and change it."),
    "keys": ("keys:app", "Make keys for programs that use the service."),
    "people": ("users:app", "Let people log in to the service, and let them in no more."),
    "audit": ("audit:audit", "Show who changed what, the latest first."),
    "workers": ("status:workers", "List the workers, and those that are lost."),
    "stats": ("status:stats", "Show throughput, failures and times."),
    "health": ("status:health", "Say whether the queue is healthy, degraded or down."),
    "top": ("top:top", "Watch the queue live; q leaves."),
    "doctor": ("doctor:doctor", "Find what is wrong, and what to do."),
    "migrate": ("migrate:migrate", "Make the tables, or bring them up to date."),
    "db": ("db:app", "Start, stop and reach the embedded Postgres."),
    "demo": ("tools:demo", "See it work, in half a minute."),
    "bench": ("tools:bench", "Measure throughput and latency here."),
    "completion": ("completion:completion", "Print the script for completion by a shell."),
}


class Root(Commands):
    """The group of all commands.

    Commands of applications are added only to list all commands, or to find a name that is not
    one of Penstock's own.
    """

    commands: dict[str, Any]

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {
            name: LazyCommand(name, f"penstock.cli.commands.{location}", summary)
            for name, (location, summary) in COMMANDS.items()
        }

    def list_commands(self, ctx: Any) -> list[str]:
        applications.add_commands(self.commands)
        return super().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands:
            applications.add_commands(self.commands)
        return self.commands.get(cmd_name)


app = group("penstock", Root)


def _print_version(is_requested: bool) -> None:
    if is_requested:
        from importlib.metadata import version

        typer.echo(f"penstock {version('penstock')}")
        raise typer.Exit


@app.callback()
def penstock(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            is_eager=True,
            callback=_print_version,
            help="Print the version and leave.",
        ),
    ] = False,
    traceback: Annotated[
        bool,
        typer.Option(
            "--traceback",
            envvar="PENSTOCK_TRACEBACK",
            help="Show where in the code an error came from.",
        ),
    ] = False,
) -> None:
    """Durable background jobs on Postgres.

    \b
    penstock demo                                   see it work
    penstock up shop.jobs                           database, worker and API, to develop with
    penstock migrate --database-url postgresql://…  make the tables
    penstock work shop.jobs --queue email:5         run a worker
    penstock serve shop.jobs                        serve the HTTP API
    penstock top                                    watch it
    """


def main() -> None:
    """Run `penstock`; the installed script calls this."""
    _complete_for_shell()
    app(prog_name="penstock")


def _complete_for_shell() -> None:
    """Let Typer answer a shell that asks for completions."""
    if COMPLETION_VARIABLE in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()
