"""`penstock`: everything from the terminal.

What a command needs is imported when it runs, so that `penstock --help` answers at once.
"""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli import (
    applications,
    audit,
    batches,
    bench,
    completion,
    db,
    dead,
    demo,
    doctor,
    enqueue,
    events,
    health,
    jobs,
    keys,
    lanes,
    limits,
    migrate,
    people,
    plans,
    queues,
    retention,
    schedules,
    serve,
    stats,
    tenants,
    top,
    up,
    work,
    workers,
    workflows,
)
from penstock.cli.commands import Command, group

app = group("penstock")


def _print_version(wanted: bool) -> None:
    if wanted:
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


app.command("up", cls=Command)(up.up)
app.command("work", cls=Command)(work.work)
app.command("serve", cls=Command)(serve.serve)
app.command("enqueue", cls=Command)(enqueue.enqueue)
app.add_typer(jobs.app)
app.add_typer(dead.app)
app.add_typer(batches.app)
app.add_typer(workflows.app)
app.add_typer(events.app)
app.add_typer(queues.app)
app.add_typer(lanes.app)
app.add_typer(schedules.app)
app.add_typer(limits.app)
app.add_typer(plans.app)
app.add_typer(tenants.app)
app.add_typer(retention.app)
app.add_typer(keys.app)
app.add_typer(people.app)
app.command("audit", cls=Command)(audit.audit)
app.command("workers", cls=Command)(workers.workers)
app.command("stats", cls=Command)(stats.stats)
app.command("health", cls=Command)(health.health)
app.command("top", cls=Command)(top.top)
app.command("doctor", cls=Command, short_help="Find what is wrong, and what to do.")(doctor.doctor)
app.command("migrate", cls=Command)(migrate.migrate)
app.add_typer(db.app)
app.command("demo", cls=Command)(demo.demo)
app.command("bench", cls=Command)(bench.bench)
app.command("completion", cls=Command)(completion.completion)


applications.add_commands(app)


def main() -> None:
    """What the installed `penstock` runs."""
    completion.answer_shells()
    app(prog_name="penstock")
