"""`penstock demo` and `penstock bench`: see it work, and measure it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.framework import Exit, examples, spread
from penstock.cli.options import Server
from penstock.cli.output import Output, say

# The numbers of the plan, whose module would bring asyncpg and all with it.
JOBS = 4012
FEWEST = 50
FOLDER = Path(".penstock-demo")

Jobs = Annotated[int, typer.Option(min=FEWEST, max=100_000, help="How many jobs to run.")]
FolderOption = Annotated[
    Path,
    typer.Option("--folder", help="Where its Postgres, the workers' log and the picture are kept."),
]


@examples("penstock demo", "penstock demo --jobs 300 --json")
@spread
def demo(*, jobs: Jobs = JOBS, folder: FolderOption = FOLDER, output: Output) -> None:
    """See it work, in half a minute.

    Jobs of several kinds run on a Postgres of its own. Some are quick, some slow, some run in
    threads, fail and are tried again, or go to sleep. One kills its worker, and another worker
    rescues what that one had. The exit code is 1 unless every job ended as it should.
    """
    import asyncio

    from rich.console import Console

    from penstock.demo import run_demo
    from penstock.demo.screen import LiveScreen, PlainScreen
    from penstock.demo.stage import Folder, Plan

    console = Console(stderr=output.as_json)
    screen = LiveScreen(console) if console.is_terminal else PlainScreen(console.file)
    say("Starting Postgres …")
    ended = asyncio.run(run_demo(Plan(jobs), Folder(folder), screen))
    output.show(ended.as_dict(), lambda: str(ended))
    raise typer.Exit(Exit.OK if ended.is_as_expected else Exit.ERROR)


@examples(
    "penstock bench --jobs 20000 --rounds 1",
    "penstock bench --jobs 5000 --rounds 1 --processes 2 --json > bench.json",
    "penstock bench --jobs 5000 --rounds 1 --tenants 1000",
)
@spread
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
    place: Server,
    output: Output,
) -> None:
    """Measure throughput and latency here.

    They are compared with what Postgres gives a bare loop. It works in a schema of its own, which
    it drops at the end.
    """
    from penstock.bench.plan import Plan
    from penstock.bench.report import Live, results_table
    from penstock.bench.run import measure
    from penstock.cli.database import plain_errors
    from penstock.worker.processes import run

    more = (soak, dead, tenants, batch, isolated)
    plan = Plan(jobs, rounds, processes, tuple(backlog or ()), *more)
    database = place.database()
    with plain_errors(database):
        document = run(measure(plan, database, Live()))
    output.show(document, lambda: results_table(document))
