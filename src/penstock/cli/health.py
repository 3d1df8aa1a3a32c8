"""`penstock health`: one word for monitoring, and the reasons for people."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import typer

from penstock.cli.commands import examples
from penstock.cli.output import Output
from penstock.cli.spread import spread
from penstock.cli.where import Where

if TYPE_CHECKING:
    from penstock.insights import Health

CODES = {"healthy": 0, "degraded": 1, "down": 2}


@examples("penstock health", "penstock health --json")
@spread
def health(where: Where, output: Output) -> None:
    """Say whether the queue is healthy, degraded or down.

    The exit code is 0, 1 or 2, as monitoring systems want it. A database that cannot be used is
    down. PENSTOCK_HEALTH moves the thresholds, such as error_rate_down=0.3,dead_hourly=10.
    """
    from penstock.cli.screens.health import health_page

    found = asyncio.run(_look(where))
    output.show(found, lambda: health_page(found))
    raise typer.Exit(CODES[found.status])


async def _look(where: Where) -> Health:
    from penstock.cli.errors import DatabaseRefused, DatabaseUnreachable
    from penstock.cli.opening import reached
    from penstock.errors import SchemaError
    from penstock.insights import Thresholds
    from penstock.insights.health import unreachable

    thresholds = Thresholds.of()
    try:
        async with reached(where) as queue:
            return await queue.insights.health(thresholds)
    except (DatabaseUnreachable, DatabaseRefused, SchemaError) as error:
        return unreachable(str(error), thresholds)
