"""`penstock db`: start, stop and reach the embedded Postgres."""

from __future__ import annotations

import asyncio
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from penstock.cli import options
from penstock.cli.framework import Command, Exit, examples, expand_options, group
from penstock.cli.output import Output, say

if TYPE_CHECKING:
    from penstock.embedded import Server, Status

app = group("db", help="Start, stop and reach the embedded Postgres.")


@app.command("start", cls=Command)
@examples("penstock db start", "penstock db start --data-dir shop.pg", "penstock db start --json")
@expand_options
def start(server_options: options.ServerOptions, output: Output) -> None:
    """Start the server, with the queue's tables, and leave it running."""
    from penstock.migrate import migrate

    if (url := server_options.database().url) is not None:
        _report_nothing_to("start")
        _show(output, {"url": url}, "")
        return
    server = _server(server_options)
    server.start()
    # Nobody else migrates the schema of an embedded server.
    asyncio.run(migrate(server.url(), schema=server_options.database().schema))
    status = server.status()
    message = (
        f"Postgres {status.version} runs in {status.data_dir}, process {status.pid}.\n"
        f"Its URL is {server.url()}\n"
        "It runs until `penstock db stop`."
    )
    _show(output, {"url": server.url(), **asdict(status)}, message)


@app.command("stop", cls=Command)
@examples("penstock db stop", "penstock db stop --json")
@expand_options
def stop(server_options: options.ServerOptions, output: Output) -> None:
    """Stop the server, even if somebody uses it."""
    if server_options.database().url is not None:
        _report_nothing_to("stop")
        _show(output, {"stopped": False}, "")
        return
    server = _server(server_options)
    before = server.status()
    server.stop()
    message = f"No server runs in {before.data_dir}."
    if before.running:
        used = f"\nIt was in use by {_describe_processes(before)}." if before.holders else ""
        message = f"The server in {before.data_dir} has stopped.{used}"
    _show(output, {"stopped": before.running, "data_dir": before.data_dir}, message)


@app.command("status", cls=Command)
@examples("penstock db status", "penstock db status --json")
@expand_options
def status(server_options: options.FolderOptions, output: Output) -> None:
    """Say whether the server runs; the exit code is 0 if it does and 3 if not."""
    server_status = _server(server_options).status()
    _show(output, asdict(server_status), _describe(server_status))
    raise typer.Exit(Exit.OK if server_status.running else Exit.NO)


@app.command("url", cls=Command)
@examples("penstock db url", 'psql "$(penstock db url)" -c "SELECT 1"', "penstock db url --json")
@expand_options
def url(server_options: options.ServerOptions, output: Output) -> None:
    """Print the URL for the application, whose role is no superuser."""
    database_url = server_options.database().url
    if database_url is None:
        server = _server(server_options)
        database_url = server.url()
        if not server.status().running:
            say("The server does not run now; start it with `penstock db start`.")
    _show(output, {"url": database_url}, database_url)


@app.command(
    "psql",
    cls=Command,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
@examples("penstock db psql", "penstock db psql -c 'SELECT now()'")
@expand_options
def psql(context: typer.Context, server_options: options.ServerOptions) -> None:
    """Open psql on the database; what follows is passed to it.

    The server is started if need be, and runs as long as psql does.
    """
    server = _server(server_options)
    program = server.binaries().program("psql")
    database_url = server_options.database().url
    if database_url is None:
        hold = server.acquire()
        hold.outlive_exec()
        database_url = hold.url
    os.execv(program, [str(program), *context.args, "--dbname", database_url])


def _server(server_options: options.FolderOptions) -> Server:
    from penstock.embedded import Server

    return Server(server_options.data_dir)


def _show(output: Output, document: dict[str, Any], message: str) -> None:
    if output.as_json or message:
        output.show(document, lambda: message)


def _report_nothing_to(verb: str) -> None:
    say(
        f"There is nothing to {verb}: PENSTOCK_DATABASE_URL or --database-url names a server of "
        "your own, so the embedded one is not used."
    )


def _describe(status: Status) -> str:
    if not status.running:
        return f"No server runs in {status.data_dir}."
    lines = [f"Postgres {status.version} runs in {status.data_dir}, process {status.pid}."]
    lines += [f"It is used by {_describe_processes(status)}."] if status.holders else []
    lines += ["It runs until `penstock db stop`."] if status.persistent else []
    return "\n".join(lines)


def _describe_processes(status: Status) -> str:
    pids = sorted(set(status.holders))
    return f"process{'es' if len(pids) > 1 else ''} {', '.join(map(str, pids))}"
