"""`penstock lanes`: what takes turns in a queue."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from penstock.cli.commands import Command, examples, group
from penstock.cli.duration import seconds
from penstock.cli.given import or_none, settings
from penstock.cli.hours import Hours
from penstock.cli.output import Output, say, terminal
from penstock.cli.spread import spread
from penstock.cli.where import Where

app = group("lanes", help="Look at lanes, which take turns, and change them.")

Queue = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue.")]
Lane = Annotated[str, typer.Argument(metavar="LANE", help="The lane: a tenant's name.")]


@app.command("list", cls=Command)
@examples("penstock lanes list mail", "penstock lanes list mail --limit 10 --json")
@spread
def list_lanes(
    *,
    queue: Queue,
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


@app.command("set", cls=Command)
@examples(
    "penstock lanes set imports acme --weight 3",
    "penstock lanes set imports acme --window '22:00-06:00' --timezone Europe/Berlin --pause",
)
@spread
def set_lane(
    *,
    queue: Queue,
    lane: Lane,
    weight: Annotated[
        int | None,
        typer.Option(help="How many jobs it gets in each turn, 1 to 1000.", show_default=False),
    ] = None,
    paused: Annotated[
        bool | None,
        typer.Option(
            "--pause/--resume", help="Let workers take none of its jobs.", show_default=False
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
    """Change one lane of a queue; what is not given stays as it is."""
    from penstock.cli.tuning import change_lane

    windows = hours.given()
    changes = settings(weight=weight, paused=paused, windows=windows, late_after=late_after)
    asyncio.run(change_lane(queue, lane, changes, where, output))


@app.command("remove", cls=Command)
@examples("penstock lanes remove imports acme")
@spread
def remove_lane(queue: Queue, lane: Lane, where: Where, output: Output) -> None:
    """Forget what was set for a lane; its jobs take their turns like any other's."""
    from penstock.cli.tuning import remove_lane

    asyncio.run(remove_lane(queue, lane, where, output))


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
