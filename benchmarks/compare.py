"""Penstock and its peers in turn, in one run on one server: `python -m benchmarks.compare --help`.

Every peer runs in an environment of its own under .bench/, which is made on the way.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks.comparison import document
from benchmarks.comparison.plan import Plan
from benchmarks.comparison.postgres import server
from benchmarks.comparison.table import table
from penstock.bench.report import LiveLine
from penstock.worker.processes import run

WIDTH = 110


def main(
    peers: Annotated[
        list[str] | None,
        typer.Argument(help="Whom to compare Penstock with; all of them if nobody is named."),
    ] = None,
    rounds: Annotated[int, typer.Option(help="How often; the medians are shown.")] = 3,
    quick: Annotated[
        bool, typer.Option(help="One round of few jobs: it shows only that everything works.")
    ] = False,
    tune: Annotated[
        bool, typer.Option(help="Try out each peer's settings first, and use the fastest.")
    ] = True,
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
    """Measure the same work with Penstock and its peers."""
    keys = _keys(peers or [])
    plan = Plan.quick() if quick else Plan(rounds=rounds, tune=tune)
    result = run(_compare(keys, plan, database_url))
    if output is not None:
        output.write_text(json.dumps(result, indent=1) + "\n")
    # Where there is no terminal, rich would cut the numbers off at 80 columns.
    Console(width=max(Console().width, WIDTH)).print(table(result))
    for name, reason in result["left_out"].items():
        typer.echo(f"{name} is left out: {reason}", err=True)


def _keys(peers: list[str]) -> list[str]:
    for name in peers:
        if name not in document.PEERS:
            known = ", ".join(document.PEERS[1:])
            raise typer.BadParameter(f"There is no peer {name!r}; there are {known}.")
    return ["penstock", *(peers or document.PEERS[1:])]


async def _compare(keys: list[str], plan: Plan, database_url: str | None) -> dict[str, Any]:
    live = LiveLine()
    entrants, left_out = await asyncio.to_thread(document.enter, keys, live)
    async with server(database_url) as postgres:
        return await document.compare(postgres, plan, live, entrants, left_out)


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(main)
    app()
