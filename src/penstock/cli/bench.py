"""`penstock bench`: measure the queue on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.commands import examples
from penstock.cli.output import Output
from penstock.cli.spread import spread
from penstock.cli.where import Server


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
    from penstock.cli.opening import plain_errors
    from penstock.worker.processes import run

    more = (soak, dead, tenants, batch, isolated)
    plan = Plan(jobs, rounds, processes, tuple(backlog or ()), *more)
    database = place.database()
    with plain_errors(database):
        document = run(measure(plan, database, Live()))
    output.show(document, lambda: results_table(document))
