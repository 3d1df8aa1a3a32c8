"""`penstock queues`: what waits in them, and whether workers may take it."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from penstock.cli.commands import Command, examples, group
from penstock.cli.output import Output
from penstock.cli.spread import spread
from penstock.cli.where import Where

app = group("queues", help="Look at queues, pause and resume them.")

Names = Annotated[list[str], typer.Argument(metavar="QUEUE", help="The queues by name.")]


@app.command("list", cls=Command)
@examples("penstock queues list", "penstock queues list --json")
@spread
def list_queues(where: Where, output: Output) -> None:
    """List the queues that have jobs, workers or settings.

    Jobs are counted up to 100,000 of a kind; 100,000+ says that there are more.
    """
    from penstock.cli.pausing import show_queues

    asyncio.run(show_queues(where, output))


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
