"""`penstock plans`: what tenants pay for."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from penstock.cli.commands import Command, examples, group
from penstock.cli.duration import seconds
from penstock.cli.given import or_none, settings
from penstock.cli.output import Output
from penstock.cli.spread import spread
from penstock.cli.where import Where

app = group("plans", help="Look at the plans of tenants, and change them.")

Name = Annotated[str, typer.Argument(metavar="PLAN", help="The plan by its name.")]


@app.command("list", cls=Command)
@examples("penstock plans list")
@spread
def list_plans(where: Where, output: Output) -> None:
    """List the plans."""
    from penstock.cli.tuning import show_plans

    asyncio.run(show_plans(where, output))


@app.command("set", cls=Command)
@examples("penstock plans set gold --priority 10 --weight 5 --late-after 1m")
@spread
def set_plan(
    *,
    name: Name,
    priority: Annotated[
        int | None,
        typer.Option(
            help="What is added to the priority of its tenants' jobs, -100 to 100.",
            show_default=False,
        ),
    ] = None,
    weight: Annotated[
        int | None,
        typer.Option(
            help="How many jobs each of its tenants gets in a turn of a fair queue, 1 to 1000.",
            show_default=False,
        ),
    ] = None,
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
    """Make a plan, or change it; what is not given stays as it is."""
    from penstock.cli.tuning import change_plan

    changes = settings(priority=priority, weight=weight, late_after=late_after)
    asyncio.run(change_plan(name, changes, where, output))


@app.command("remove", cls=Command)
@examples("penstock plans remove trial")
@spread
def remove_plan(name: Name, where: Where, output: Output) -> None:
    """Take a plan away that no tenant has."""
    from penstock.cli.tuning import remove_plan

    asyncio.run(remove_plan(name, where, output))
