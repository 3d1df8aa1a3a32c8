"""`penstock limits`: how much may run, and begin, of a key."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from penstock.cli.commands import Command, examples, group
from penstock.cli.duration import seconds
from penstock.cli.given import number, or_none, settings, whole
from penstock.cli.output import Output, say, terminal
from penstock.cli.spread import spread
from penstock.cli.where import Where

app = group("limits", help="Look at limits, change, close and open them.")

Key = Annotated[
    str,
    typer.Argument(
        metavar="KEY",
        help="queue:NAME, lane:QUEUE:LANE, task:NAME or a key of your own; with * at its end, "
        "each key that begins so.",
    ),
]


@app.command("list", cls=Command)
@examples("penstock limits list", "penstock limits list --limit 10 --json")
@spread
def list_limits(
    *,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many.")] = 200,
    where: Where,
    output: Output,
) -> None:
    """List the limits, and each key in use under a pattern, those that hold up jobs first.

    Slots are how many jobs may run at once, held by workers; ready are the jobs that have to keep
    to it; the level is how many may begin now, of as many as may at once after a rest.
    """
    asyncio.run(_show(limit, where, output))


@app.command("set", cls=Command)
@examples(
    "penstock limits set openai --slots 10 --rate 500/min",
    "penstock limits set 'lane:imports:*' --slots 4 --json",
)
@spread
def set_limit(
    *,
    key: Key,
    slots: Annotated[
        int | None,
        typer.Option(
            parser=or_none(whole),
            metavar="NUMBER",
            help="How many jobs run at once over all workers; none takes it away.",
            show_default=False,
        ),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(
            metavar="RATE",
            help="How many start: 10/s, 500/min, 2000/hour; none takes it away.",
            show_default=False,
        ),
    ] = None,
    burst: Annotated[
        float | None,
        typer.Option(
            parser=or_none(number),
            metavar="NUMBER",
            help="How many start at once after a rest; what comes in a second, if not given.",
            show_default=False,
        ),
    ] = None,
    where: Where,
    output: Output,
) -> None:
    """Limit a key over all workers, at once; what is not given stays as it is."""
    from penstock.cli.tuning import change_limit

    changes = settings(slots=slots, rate=rate, burst=burst)
    asyncio.run(change_limit(key, changes, where, output))


@app.command("remove", cls=Command)
@examples("penstock limits remove openai")
@spread
def remove_limit(key: Key, where: Where, output: Output) -> None:
    """Limit a key no more."""
    from penstock.cli.tuning import remove_limit

    asyncio.run(remove_limit(key, where, output))


@app.command("close", cls=Command)
@examples("penstock limits close openai --for 30s")
@spread
def close_key(
    *,
    key: Key,
    length: Annotated[
        float, typer.Option("--for", parser=seconds, metavar="DURATION", help="For how long.")
    ],
    where: Where,
    output: Output,
) -> None:
    """Let no job of a key start for a while, as an answer 429 with a Retry-After does."""
    from penstock.cli.tuning import close_key

    asyncio.run(close_key(key, length, where, output))


@app.command("open", cls=Command)
@examples("penstock limits open openai")
@spread
def open_key(key: Key, where: Where, output: Output) -> None:
    """Open a key that was closed, before its time."""
    from penstock.cli.tuning import open_key

    asyncio.run(open_key(key, where, output))


async def _show(limit: int, where: Where, output: Output) -> None:
    from penstock.cli.opening import reached
    from penstock.cli.screens.limits import limits_table

    async with reached(where) as opened:
        found = await opened.insights.limits(limit=limit)
    output.show(found, lambda: limits_table(found, terminal().width))
    if found.number.number > len(found.limits) and not output.as_json:
        say(f"These are {len(found.limits)} of {found.number} limits and keys: --limit shows more.")
