"""`python -m benchmarks.before_after --help`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks.before_after import document
from benchmarks.before_after.commit import Commit, checked_out, present
from benchmarks.before_after.table import table
from benchmarks.comparison.plan import Plan
from benchmarks.comparison.postgres import server
from penstock.bench.live import Live
from penstock.worker.process import run

WIDTH = 110
# What every change is compared with: ratios of one change after the other would multiply.
BASE = "a959319"


def main(
    before: Annotated[str, typer.Option(help="The commit to compare with.")] = BASE,
    now: Annotated[
        str | None,
        typer.Option(help="Another commit instead of the files as they are.", show_default=False),
    ] = None,
    rounds: Annotated[int, typer.Option(help="How often; the medians are shown.")] = 5,
    jobs: Annotated[int, typer.Option(help="How many jobs each drain works off.")] = 100_000,
    output: Annotated[
        Path | None, typer.Option("--json", help="Write one JSON document to this file.")
    ] = None,
    database_url: Annotated[
        str | None,
        typer.Option(
            help="A server of your own; its role must be allowed to create databases.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Measure plain jobs before and after a change."""
    plan = Plan(rounds=rounds, tune=False)
    with checked_out(before) as old, checked_out(now) if now else present() as new:
        result = run(_measure([old, new], plan, jobs, database_url))
    if output is not None:
        output.write_text(json.dumps(result, indent=1) + "\n")
    # Where there is no terminal, rich would cut the numbers off at 80 columns.
    Console(width=max(Console().width, WIDTH)).print(table(result))


async def _measure(
    commits: Sequence[Commit], plan: Plan, jobs: int, database_url: str | None
) -> dict[str, Any]:
    async with server(database_url) as postgres:
        return await document.measure(postgres, plan, Live(), commits, jobs)


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(main)
    app()
