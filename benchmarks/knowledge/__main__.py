"""`python -m benchmarks.knowledge --help`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.knowledge.measuring import Measuring
from benchmarks.knowledge.table import table
from penstock.bench.report import LiveLine
from penstock.worker.processes import run


def main(
    files: Annotated[int, typer.Option(help="How many files of each corpus at most.")] = 4000,
    output: Annotated[
        Path | None, typer.Option("--json", help="Write one JSON document to this file.")
    ] = None,
    database_url: Annotated[
        str | None, typer.Option(help="A server of your own, as superuser.", show_default=False)
    ] = None,
) -> None:
    """Measure how fast documents come in."""
    result = run(Measuring(LiveLine(), files).run(database_url))
    if output is not None:
        output.write_text(json.dumps(result, indent=1) + "\n")
    Console().print(table(result))


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(main)
    app()
