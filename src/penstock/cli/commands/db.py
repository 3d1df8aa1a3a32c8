"""`penstock db`: the embedded Postgres from the terminal."""

from __future__ import annotations

import asyncio
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from penstock.cli import options
from penstock.cli.framework import Command, Exit, examples, group, spread
from penstock.cli.output import Output, say

if TYPE_CHECKING:
    from penstock.embedded import Server, Status

app = group("db", help="Start, stop and reach the embedded Postgres.")


@app.command("start", cls=Command)
@examples("penstock db start", "penstock db start --data-dir shop.pg", "penstock db start --json")
@spread
def start(place: options.Server, output: Output) -> None:
    """Start the server, with the queue's tables, and leave it running."""
    from penstock.migrate import migrate

    if (url := place.database().url) is not None:
        _nothing_to("start")
        _show(output, {"url": url}, "")
        return
    server = _server(place)
    server.start()
    # A server of ours has nobody else who would look after its schema.
    asyncio.run(migrate(server.url(), schema=place.database().schema))
    status = server.status()
    told = (
        f"Postgres {status.version} runs in {status.data_dir}, process {status.pid}.\n"
        f"Its URL is {server.url()}\n"
        "It runs until `penstock db stop`."
    )
    _show(output, {"url": server.url(), **asdict(status)}, told)


@app.command("stop", cls=Command)
@examples("penstock db stop", "penstock db stop --json")
@spread
def stop(place: options.Server, output: Output) -> None:
    """Stop the server, even if somebody uses it."""
    if place.database().url is not None:
        _nothing_to("stop")
        _show(output, {"stopped": False}, "")
        return
    server = _server(place)
    before = server.status()
    server.stop()
    told = f"No server runs in {before.data_dir}."
    if before.running:
        used = f"\nIt was in use by {_processes(before)}." if before.holders else ""
        told = f"The server in {before.data_dir} has stopped.{used}"
    _show(output, {"stopped": before.running, "data_dir": before.data_dir}, told)


@app.command("status", cls=Command)
@examples("penstock db status", "penstock db status --json")
@spread
def status(place: options.Folder, output: Output) -> None:
    """Say whether the server runs; the exit code is 0 if it does and 3 if not."""
    found = _server(place).status()
    _show(output, asdict(found), _described(found))
    raise typer.Exit(Exit.OK if found.running else Exit.NO)


@app.command("url", cls=Command)
@examples("penstock db url", 'psql "$(penstock db url)" -c "SELECT 1"', "penstock db url --json")
@spread
def url(place: options.Server, output: Output) -> None:
    """Print the URL for the application, whose role is no superuser."""
    found = place.database().url
    if found is None:
        server = _server(place)
        found = server.url()
        if not server.status().running:
            say("The server does not run now; start it with `penstock db start`.")
    _show(output, {"url": found}, found)


@app.command(
    "psql",
    cls=Command,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
@examples("penstock db psql", "penstock db psql -c 'SELECT now()'")
@spread
def psql(context: typer.Context, place: options.Server) -> None:
    """Open psql on the database; what follows is passed to it.

    The server is started if need be, and runs as long as psql does.
    """
    server = _server(place)
    program = server.binaries().program("psql")
    found = place.database().url
    if found is None:
        hold = server.acquire()
        hold.outlive_exec()
        found = hold.url
    os.execv(program, [str(program), *context.args, "--dbname", found])


def _server(place: options.Folder) -> Server:
    from penstock.embedded import Server

    return Server(place.data_dir)


def _show(output: Output, document: dict[str, Any], told: str) -> None:
    if output.as_json or told:
        output.show(document, lambda: told)


def _nothing_to(verb: str) -> None:
    say(
        f"There is nothing to {verb}: PENSTOCK_DATABASE_URL or --database-url names a server of "
        "your own, so the embedded one is not used."
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
