"""`penstock queues`: what waits in them, and whether workers may take it."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from penstock.cli.commands import Command, examples, group
from penstock.cli.duration import seconds
from penstock.cli.given import or_none, settings
from penstock.cli.hours import Hours
from penstock.cli.output import Output
from penstock.cli.spread import spread
from penstock.cli.where import Where

app = group("queues", help="Look at queues, pause, resume and change them.")

Names = Annotated[list[str], typer.Argument(metavar="QUEUE", help="The queues by name.")]


@app.command("list", cls=Command)
@examples("penstock queues list", "penstock queues list --json")
@spread
def list_queues(
    *,
    limit: Annotated[
        int, typer.Option(min=1, max=100_000, help="How many of the queues with ready jobs.")
    ] = 1000,
    where: Where,
    output: Output,
) -> None:
    """List the queues that have jobs, workers or settings.

    Jobs are counted up to 100,000 of a kind; 100,000+ says that there are more.
    """
    from penstock.cli.pausing import show_queues

    asyncio.run(show_queues(limit, where, output))


@app.command("pause", cls=Command)
@examples("penstock queues pause mail", "penstock queues pause mail documents --json")
@spread
def pause(names: Names, where: Where, output: Output) -> None:
    """Let no worker take jobs from queues; what runs goes on, and jobs can still be enqueued."""
    from penstock.cli.pausing import pause_queues

    asyncio.run(pause_queues(names, where, output))


@app.command("resume", cls=Command)
@examples("penstock queues resume mail", "penstock queues resume mail documents")
@spread
def resume(names: Names, where: Where, output: Output) -> None:
    """Let workers take jobs from queues again."""
    from penstock.cli.pausing import resume_queues

    asyncio.run(resume_queues(names, where, output))


@app.command("set", cls=Command)
@examples(
    "penstock queues set imports --fair",
    "penstock queues set reports --window 'mon-fri 22:00-06:00' --timezone Europe/Berlin",
    "penstock queues set mail --ageing 1m --late-after 5m --no-window --json",
)
@spread
def set_queue(
    *,
    name: Annotated[str, typer.Argument(metavar="QUEUE", help="The queue by its name.")],
    fair: Annotated[
        bool | None,
        typer.Option(
            "--fair/--no-fair",
            help="Whether lanes take turns, one for each tenant.",
            show_default=False,
        ),
    ] = None,
    lane_key: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="What the lanes are: tenant, task, subject, requested_by, args.NAME, meta.NAME.",
            show_default=False,
        ),
    ] = None,
    ageing: Annotated[
        float | None,
        typer.Option(
            parser=or_none(seconds),
            metavar="DURATION",
            help="How much waiting counts as 1 of priority; none takes it away.",
            show_default=False,
        ),
    ] = None,
    hours: Hours,
    late_after: Annotated[
        float | None,
        typer.Option(
            parser=or_none(seconds),
            metavar="DURATION",
            help="How long after its time a job is late; none takes it away.",
            show_default=False,
        ),
    ] = None,
    where: Where,
    output: Output,
) -> None:
    """Change how a queue is served; what is not given stays as it is."""
    from penstock.cli.tuning import change_queue

    changes = settings(
        fair=fair, lane_key=lane_key, ageing=ageing, windows=hours.given(), late_after=late_after
    )
    asyncio.run(change_queue(name, changes, where, output))
