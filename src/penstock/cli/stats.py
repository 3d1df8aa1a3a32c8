"""`penstock stats`: how much ended lately, how, and how long it took."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from penstock.cli.commands import examples
from penstock.cli.duration import seconds
from penstock.cli.output import Output, terminal
from penstock.cli.spread import spread
from penstock.cli.where import Where


@examples("penstock stats", "penstock stats --window 15m", "penstock stats --json")
@spread
def stats(
    *,
    window: Annotated[
        list[float] | None,
        typer.Option(
            parser=seconds,
            metavar="DURATION",
            help="The last so long, up to 7d; may be repeated. A minute, an hour and a day "
            "unless given.",
            show_default=False,
        ),
    ] = None,
    where: Where,
    output: Output,
) -> None:
    """Show throughput, failures and times.

    By task and outcome, with how long jobs waited and ran. At most some 100,000 ended jobs are
    read. If more ended in a window, it is shortened to what was read; rates stay true.
    """
    if window and not all(0 < each <= 7 * 86_400 for each in window):
        raise typer.BadParameter("a window is longer than nothing and at most 7d")
    asyncio.run(_show(where, output, window))


async def _show(where: Where, output: Output, window: list[float] | None) -> None:
    from penstock.cli.opening import reached
    from penstock.cli.screens.stats import stats_page

    async with reached(where) as queue:
        windows = await queue.insights.throughput(*([window] if window else []))
        queues = await queue.insights.queues()
    document = {"throughput": windows, "queues": queues}
    output.show(document, lambda: stats_page(windows, queues, terminal().width))
