"""`python -m benchmarks.micro_batching --help`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks.comparison.environment import FOLDER as BENCH
from benchmarks.micro_batching.load import Load, loads
from benchmarks.micro_batching.load import measure as measure_load
from benchmarks.micro_batching.table import table
from benchmarks.micro_batching.worker import BATCH, CALL_SECONDS, CALLS_AT_ONCE
from penstock.bench.report import LiveLine
from penstock.bench.sandbox import SandboxServer, machine, open_sandbox
from penstock.config import Database
from penstock.worker.processes import run

# The server of the comparison with others.
FOLDER = str(BENCH / "postgres")
WIDTH = 110


def main(
    items: Annotated[int, typer.Option(help="How many items share calls.")] = 10_000,
    output: Annotated[
        Path | None, typer.Option("--json", help="Write one JSON document to this file.")
    ] = None,
    database_url: Annotated[
        str | None, typer.Option(help="A server of your own.", show_default=False)
    ] = None,
) -> None:
    """Count the calls that items need, and how long they wait for each other."""
    database = Database.of(database_url, data_dir=None if database_url else FOLDER)
    result = run(measure(loads(items), database, LiveLine()))
    if output is not None:
        output.write_text(json.dumps(result, indent=1) + "\n")
    # Where there is no terminal, rich would cut the numbers off at 80 columns.
    Console(width=max(Console().width, WIDTH)).print(table(result))


async def measure(given: Sequence[Load], database: Database, live: LiveLine) -> dict[str, Any]:
    """The loads, one after the other."""
    before, found = machine(), {}
    async with open_sandbox(database) as sandbox:
        for load in given:
            with live.doing(f"measure {load.name}"):
                found[load.name] = await measure_load(sandbox, load, live)
        server = await SandboxServer.of(sandbox.connection)
    return {
        "batch": {"size": BATCH.size, "linger": BATCH.seconds},
        "workers": {"calls_at_once": CALLS_AT_ONCE, "call_seconds": CALL_SECONDS},
        "loads": found,
        **server.as_dict(),
        "machine": before,
    }


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(main)
    app()
