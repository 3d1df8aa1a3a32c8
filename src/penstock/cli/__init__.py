"""`penstock`: everything from the terminal.

What a command needs is imported when it runs, so that `penstock --help` answers at once.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from penstock.cli import bench, db, demo, doctor, migrate, work
from penstock.cli.commands import Commands

app = typer.Typer(
    name="penstock",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # Boxes and colours are for people at a terminal.
    rich_markup_mode="rich" if sys.stdout.isatty() else None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
    penstock migrate --database-url postgresql://…  make the tables
    penstock work shop.jobs --queue email:5         run a worker
    """


app.command("work")(work.work)
app.command("migrate")(migrate.migrate)
app.add_typer(db.app, name="db")
app.command("demo")(demo.demo)
app.command("bench")(bench.bench)
app.command("doctor")(doctor.doctor)


def main() -> None:
    """What the installed `penstock` runs."""
    app(prog_name="penstock")
