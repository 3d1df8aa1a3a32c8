"""`penstock workers`: who works, and who is lost."""

from __future__ import annotations

import asyncio

from penstock.cli.commands import examples
from penstock.cli.output import Output, terminal
from penstock.cli.spread import spread
from penstock.cli.where import Where


@examples("penstock workers", "penstock workers --json")
@spread
def workers(where: Where, output: Output) -> None:
    """List the workers, and those that are lost.

    What they serve and run, where they are, and when they were last heard of.
    """
    asyncio.run(_show(where, output))


async def _show(where: Where, output: Output) -> None:
    from penstock.cli.opening import reached
    from penstock.cli.screens.workers import workers_table

    async with reached(where) as queue:
        found = await queue.insights.workers()
    output.show({"workers": found}, lambda: workers_table(found, terminal().width))
