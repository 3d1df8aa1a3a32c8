"""`penstock demo` and `penstock bench`: see jobs run, and measure throughput."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.framework import Exit, examples, expand_options
from penstock.cli.options import ServerOptions
from penstock.cli.output import Output, say

# Copies of the demo's numbers: importing its module would import asyncpg too.
DEFAULT_JOBS = 4012
MIN_JOBS = 50
DEFAULT_FOLDER = Path(".penstock-demo")

Jobs = Annotated[int, typer.Option(min=MIN_JOBS, max=100_000, help="How many jobs to run.")]
FolderOption = Annotated[
    Path,
    typer.Option("--folder", help="Where its Postgres, the workers' log and the picture are kept."),
]


@examples("penstock demo", "penstock demo --jobs 300 --json")
@expand_options
def demo(
    *, jobs: Jobs = DEFAULT_JOBS, folder: FolderOption = DEFAULT_FOLDER, output: Output
) -> None:
    """See it work, in half a minute.

    Jobs of several kinds run on a Postgres of its own. Some are quick, some slow, some run in
    threads, fail and are tried again, or go to sleep. One kills its worker, and another worker
    rescues what that one had. The exit code is 1 unless every job ended as it should.
    """
    import asyncio

    from rich.console import Console

    from penstock.demo import run_demo
    from penstock.demo.screen import LiveScreen, PlainScreen
    from penstock.demo.stage import DemoFolder, DemoPlan

    console = Console(stderr=output.as_json)
    screen = LiveScreen(console) if console.is_terminal else PlainScreen(console.file)
    say("Starting Postgres …")
    result = asyncio.run(run_demo(DemoPlan(jobs), DemoFolder(folder), screen))
    output.show(result.as_dict(), lambda: str(result))
    raise typer.Exit(Exit.OK if result.is_as_expected else Exit.ERROR)


@examples(
    "penstock bench --jobs 20000 --rounds 1",
    "penstock bench --jobs 5000 --rounds 1 --processes 2 --json > bench.json",
    "penstock bench --jobs 5000 --rounds 1 --tenants 1000",
)
@expand_options
def bench(
    *,
    jobs: Annotated[int, typer.Option(help="How many jobs each drain works off.")] = 100_000,
    rounds: Annotated[int, typer.Option(help="How often; the medians are shown.")] = 3,
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
    tenants: Annotated[
        int,
        typer.Option(help="Also drain fair queues with so many tenants, and with limits."),
    ] = 0,
    batch: Annotated[
        bool, typer.Option("--batch", help="Also drain all jobs as one batch, against plain ones.")
    ] = False,
    isolated: Annotated[
        bool,
        typer.Option("--isolated", help="Also drain jobs in child processes, against plain ones."),
    ] = False,
    server_options: ServerOptions,
    output: Output,
) -> None:
    """Measure throughput and latency here.

    They are compared with what Postgres gives a bare loop. It works in a schema of its own, which
    it drops at the end.
    """
    from penstock.bench.plan import BenchPlan
    from penstock.bench.report import LiveLine, results_table
    from penstock.bench.run import measure
    from penstock.cli.database import explain_database_errors
    from penstock.worker.processes import run

    extras = (soak, dead, tenants, batch, isolated)
    plan = BenchPlan(jobs, rounds, processes, tuple(backlog or ()), *extras)
    database = server_options.database()
    with explain_database_errors(database):
        document = run(measure(plan, database, LiveLine()))
    output.show(document, lambda: results_table(document))
