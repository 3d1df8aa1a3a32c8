"""`penstock db`: the embedded Postgres from the terminal."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.embedded import Server, Status
from penstock.errors import EmbeddedError

NOT_RUNNING = 3  # the exit code that init scripts use for it

app = typer.Typer(
    name="db",
    no_args_is_help=True,
    help="Start, stop and reach the Postgres that comes with Penstock.",
)

DataDir = Annotated[
    Path | None,
    typer.Option(
        envvar="PENSTOCK_DATA_DIR",
        help="The folder of the server; .penstock in the current folder unless given.",
        readable=False,  # checked by the server, whose message names the remedy
        show_default=False,
    ),
]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        envvar="PENSTOCK_DATABASE_URL",
        help="A server of your own, to use instead of the embedded one.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@app.command()
def start(
    data_dir: DataDir = None, database_url: DatabaseUrl = None, as_json: AsJson = False
) -> None:
    """Start the server and leave it running.

    \b
    penstock db start
    penstock db start --data-dir /srv/penstock
    penstock db start --json | jq -r .url
    """
    if database_url:
        _nothing_to("start")
        if as_json:
            _print_json({"url": database_url})
        return
    with _plain_errors():
        server = Server(data_dir)
        server.start()
        status, url = server.status(), server.url()
    if as_json:
        _print_json({"url": url, **_fields(status)})
    else:
        typer.echo(f"Postgres {status.version} runs in {status.data_dir}, process {status.pid}.")
        typer.echo(f"Its URL is {url}")
        typer.echo("It runs until `penstock db stop`.")


@app.command()
def stop(data_dir: DataDir = None, database_url: DatabaseUrl = None) -> None:
    """Stop the server, even if somebody uses it.

    \b
    penstock db stop
    """
    if database_url:
        _nothing_to("stop")
        return
    with _plain_errors():
        server = Server(data_dir)
        before = server.status()
        server.stop()
    if not before.running:
        typer.echo(f"No server runs in {before.data_dir}.")
        return
    typer.echo(f"The server in {before.data_dir} has stopped.")
    if before.holders:
        typer.echo(f"It was in use by {_processes(before)}.")


@app.command()
def status(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Say whether the server runs; the exit code is 0 if it does and 3 if not.

    \b
    penstock db status
    penstock db status --json
    """
    with _plain_errors():
        found = Server(data_dir).status()
    if as_json:
        _print_json(_fields(found))
    else:
        typer.echo(_described(found))
    raise typer.Exit(0 if found.running else NOT_RUNNING)


@app.command()
def url(
    data_dir: DataDir = None, database_url: DatabaseUrl = None, as_json: AsJson = False
) -> None:
    """Print the URL for the application, whose role is no superuser.

    \b
    psql "$(penstock db url)"
    penstock db url --json
    """
    running = True
    with _plain_errors():
        if database_url is None:
            server = Server(data_dir)
            database_url, running = server.url(), server.status().running
    if not running:
        typer.echo("The server does not run now; start it with `penstock db start`.", err=True)
    if as_json:
        _print_json({"url": database_url})
    else:
        typer.echo(database_url)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def psql(
    context: typer.Context, data_dir: DataDir = None, database_url: DatabaseUrl = None
) -> None:
    """Open psql on the database; what follows is passed to it.

    The server is started if need be, and runs as long as psql does.

    \b
    penstock db psql
    penstock db psql -c 'SELECT now()'
    """
    with _plain_errors():
        server = Server(data_dir)
        program = server.binaries().program("psql")
        if database_url is None:
            hold = server.acquire()
            hold.outlive_exec()
            database_url = hold.url
    os.execv(program, [str(program), *context.args, "--dbname", database_url])


@contextmanager
def _plain_errors() -> Iterator[None]:
    try:
        yield
    except EmbeddedError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None


def _nothing_to(verb: str) -> None:
    typer.echo(
        f"There is nothing to {verb}: PENSTOCK_DATABASE_URL or --database-url names a server of "
        "your own, so the embedded one is not used.",
        err=True,
    )


def _described(status: Status) -> str:
    if not status.running:
        return f"No server runs in {status.data_dir}."
    lines = [f"Postgres {status.version} runs in {status.data_dir}, process {status.pid}."]
    lines += [f"It is used by {_processes(status)}."] if status.holders else []
    lines += ["It runs until `penstock db stop`."] if status.persistent else []
    return "\n".join(lines)


def _processes(status: Status) -> str:
    pids = sorted(set(status.holders))
    return f"process{'es' if len(pids) > 1 else ''} {', '.join(map(str, pids))}"


def _fields(status: Status) -> dict[str, Any]:
    return {
        name: str(value) if isinstance(value, Path) else value
        for name, value in asdict(status).items()
    }


def _print_json(document: dict[str, Any]) -> None:
    typer.echo(json.dumps(document))
