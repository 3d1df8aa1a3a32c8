"""`python -m benchmarks.fairness --help`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from statistics import median_low
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks.comparison.environment import FOLDER as BENCH
from benchmarks.fairness.findings import SMALL, findings
from benchmarks.fairness.load import Load
from benchmarks.fairness.simulation import PROCESSES, simulate
from benchmarks.fairness.table import table
from benchmarks.fairness.worker import JOB_SECONDS, SLOTS
from penstock.bench.report import LiveLine
from penstock.bench.sandbox import SandboxServer, machine, open_sandbox
from penstock.config import Database
from penstock.worker.processes import run

# The server of the comparison with others.
FOLDER = str(BENCH / "postgres")


def main(
    tenants: Annotated[int, typer.Option(help="How many share the workers.")] = 10_000,
    jobs: Annotated[int, typer.Option(help="About how many jobs they have.")] = 120_000,
    seconds: Annotated[float, typer.Option(help="How long jobs arrive.")] = 40.0,
    output: Annotated[
        Path | None, typer.Option("--json", help="Write one JSON document to this file.")
    ] = None,
    database_url: Annotated[
        str | None, typer.Option(help="A server of your own.", show_default=False)
    ] = None,
) -> None:
    """Let tenants of very unequal size share two workers: in fair turns, and first come."""
    database = Database.of(database_url, data_dir=None if database_url else FOLDER)
    result = run(measure(Load(tenants, jobs, seconds), database, LiveLine()))
    if output is not None:
        output.write_text(json.dumps(result, indent=1) + "\n")
    Console().print(table(result))


async def measure(load: Load, database: Database, live: LiveLine) -> dict[str, Any]:
    """Both ways, one after the other."""
    before, arrivals, found = machine(), load.arrivals(), {}
    async with open_sandbox(database) as sandbox:
        for name, fair in (("first_come", False), ("fair", True)):
            with live.doing(f"simulate {name}"):
                starts = await simulate(sandbox, arrivals, live, fair=fair)
            found[name] = findings(load, starts)
        server = await SandboxServer.of(sandbox.connection)
    return {
        "load": {**asdict(load), "jobs": len(arrivals)},
        "workers": {"processes": PROCESSES, "slots": SLOTS, "job_seconds": JOB_SECONDS},
        "small": SMALL,
        "median_size": median_low(load.sizes()),
        **found,
        **server.as_dict(),
        "machine": before,
    }


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(main)
    app()
