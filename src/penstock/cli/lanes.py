"""`penstock lanes`: what takes turns in a queue."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from penstock.cli.commands import Command, examples, group
from penstock.cli.output import Output, say, terminal
from penstock.cli.spread import spread
from penstock.cli.where import Where

app = group("lanes", help="Look at the lanes of a queue, which take turns, and change them.")


@app.command("list", cls=Command)
@examples("penstock lanes list mail", "penstock lanes list mail --limit 10 --json")
@spread
def list_lanes(
    *,
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="The queue.")],
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 50,
    start: Annotated[
        str,
        typer.Option(
            "--from", metavar="LANE", help="Lanes from this one on, by name.", show_default=False
        ),
    ] = "",
    where: Where,
    output: Output,
) -> None:
    """List the lanes of a queue that have jobs or settings, the largest first.

    Jobs are counted up to 10,000 of a lane; 10,000+ says that there are more. Of more than 20,000
    lanes the first by name are looked at, and --from goes on.
    """
    asyncio.run(_show(queue, limit, start, where, output))


async def _show(queue: str, limit: int, start: str, where: Where, output: Output) -> None:
    from penstock.cli.opening import reached
    from penstock.cli.screens.lanes import lanes_table
    from penstock.tasks.options import QUEUE_NAME, matching

    matching("queue", queue, QUEUE_NAME)
    async with reached(where) as opened:
        found = await opened.insights.lanes(queue, limit=limit, start=start)
    output.show(found, lambda: lanes_table(found, terminal().width))
    if output.as_json:
        return
    if found.number.number > len(found.lanes):
        say(f"These are {len(found.lanes)} of {found.number} lanes: --limit shows more.")
    if found.following is not None:
        say(f"More were not looked at: --from {found.following!r} goes on.")
