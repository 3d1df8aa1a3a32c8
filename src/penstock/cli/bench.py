"""`penstock bench`: measure the queue on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def bench(
    jobs: Annotated[int, typer.Option(help="How many jobs each drain works off.")] = 100_000,
    rounds: Annotated[int, typer.Option(help="How often; the medians are shown.")] = 3,
    database_url: Annotated[
        str | None,
        typer.Option(
            envvar="PENSTOCK_DATABASE_URL",
            help="A server of your own, to use instead of the embedded one.",
            show_default=False,
        ),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            envvar="PENSTOCK_DATA_DIR",
            help="The folder of the embedded server; .penstock unless given.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    processes: Annotated[
        int, typer.Option(help="Also measure so many worker processes against one.")
    ] = 1,
    backlog: Annotated[
        list[int] | None,
        typer.Option(help="Also time claims with so many ready jobs; may be repeated."),
    ] = None,
    soak: Annotated[int, typer.Option(help="Also watch a worker's memory over so many jobs.")] = 0,
    dead: Annotated[
        int, typer.Option(help="Also drain past so many dead entries that cannot be cleaned up.")
    ] = 0,
) -> None:
    """Measure throughput and latency, and compare them with what Postgres gives a bare loop.

    It works in a schema of its own, which it drops at the end.

    \b
    penstock bench
    penstock bench --jobs 20000 --rounds 1
    penstock bench --database-url postgresql://… --json > bench.json
    """
    from rich.console import Console

    from penstock.bench.document import measure
    from penstock.bench.live import Live
    from penstock.bench.plan import Plan
    from penstock.bench.table import table
    from penstock.config import Database
    from penstock.worker.process import run

    plan = Plan(jobs, rounds, processes, tuple(backlog or ()), soak, dead)
    database = Database.of(database_url, data_dir=None if data_dir is None else str(data_dir))
    document = run(measure(plan, database, Live()))
    if as_json:
        typer.echo(json.dumps(document))
    else:
        Console().print(table(document))
