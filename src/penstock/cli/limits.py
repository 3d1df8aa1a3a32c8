"""`penstock limits`: how much may run, and begin, of a key."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from penstock.cli.commands import Command, examples, group
from penstock.cli.output import Output, say, terminal
from penstock.cli.spread import spread
from penstock.cli.where import Where

app = group("limits", help="Look at limits of concurrency, rates and budgets, and change them.")


@app.command("list", cls=Command)
@examples("penstock limits list", "penstock limits list --limit 10 --json")
@spread
def list_limits(
    *,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many.")] = 200,
    where: Where,
    output: Output,
) -> None:
    """List the limits, and each key in use under a pattern, those that somebody waits for first.

    Slots are how many jobs may run at once, held by workers; the level is how many may begin now.
    """
    asyncio.run(_show(limit, where, output))


async def _show(limit: int, where: Where, output: Output) -> None:
    from penstock.cli.opening import reached
    from penstock.cli.screens.limits import limits_table

    async with reached(where) as opened:
        found = await opened.insights.limits(limit=limit)
    output.show(found, lambda: limits_table(found, terminal().width))
    if found.number.number > len(found.limits) and not output.as_json:
        say(f"These are {len(found.limits)} of {found.number} limits and keys: --limit shows more.")
