"""`penstock workers`: who works, and who is lost."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from penstock.cli.commands import examples
from penstock.cli.output import Output, say, terminal
from penstock.cli.spread import spread
from penstock.cli.where import Where


@examples("penstock workers", "penstock workers --limit 5000 --json")
@spread
def workers(
    *,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="How many.")] = 1000,
    where: Where,
    output: Output,
) -> None:
    """List the workers, and those that are lost.

    What they serve and run, where they are, and when they were last heard of.
    """
    asyncio.run(_show(limit, where, output))


async def _show(limit: int, where: Where, output: Output) -> None:
    from penstock.cli.opening import reached
    from penstock.cli.screens.workers import workers_table

    async with reached(where) as queue:
        page = await queue.insights.worker_page(limit=limit)
    output.show(page, lambda: workers_table(page.workers, terminal().width))
    if page.left_out and not output.as_json:
        say(
            f"{len(page.workers):,} workers are shown, living ones first. {page.left_out:,} more "
            "are left out: --limit shows more of them."
        )
