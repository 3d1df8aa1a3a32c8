"""`penstock top`: the queue at a glance, live."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from penstock.cli.commands import examples
from penstock.cli.duration import seconds
from penstock.cli.output import Output
from penstock.cli.spread import spread
from penstock.cli.where import Where

FASTEST = 0.2


@examples("penstock top", "penstock top --every 5s", "penstock top --once --json")
@spread
def top(
    *,
    every: Annotated[
        float,
        typer.Option(
            parser=seconds, metavar="DURATION", help="How often to look.", show_default="2s"
        ),
    ] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Draw one picture and leave.")] = False,
    where: Where,
    output: Output,
) -> None:
    """Watch the queue live; q leaves.

    Queues, the largest lanes of a fair one, workers, the jobs that run for longest and those that
    failed last. Without a terminal, and with --json, there is one picture.
    """
    from penstock.cli.watching import glance, watch

    if every < FASTEST:
        raise typer.BadParameter("--every is at least 200ms")
    if once or output.as_json or not _at_a_terminal():
        asyncio.run(glance(where, output))
    else:
        asyncio.run(watch(where, every))


def _at_a_terminal() -> bool:
    from penstock.cli.output import terminal

    return terminal().is_terminal
