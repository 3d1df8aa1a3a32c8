"""`penstock tenants`: what holds for a tenant."""

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

app = group("tenants", help="Look at tenants' plans, and change them.")

Name = Annotated[str, typer.Argument(metavar="TENANT", help="The tenant by its name.")]


@app.command("list", cls=Command)
@examples("penstock tenants list --plan gold")
@spread
def list_tenants(
    *,
    plan: Annotated[str | None, typer.Option(help="Those of a plan.", show_default=False)] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 100,
    after: Annotated[
        str | None,
        typer.Option(
            metavar="TENANT", help="Those whose names come after this.", show_default=False
        ),
    ] = None,
    where: Where,
    output: Output,
) -> None:
    """List the tenants that something is set for, by name."""
    from penstock.cli.tuning import show_tenants

    asyncio.run(show_tenants(plan, after, limit, where, output))


@app.command("set", cls=Command)
@examples("penstock tenants set acme --plan gold")
@spread
def set_tenant(
    *,
    name: Name,
    plan: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The plan of the tenant; none takes it away.", show_default=False
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
    """Change what holds for a tenant; what is not given stays as it is."""
    from penstock.cli.tuning import change_tenant

    asyncio.run(change_tenant(name, settings(plan=plan, late_after=late_after), where, output))


@app.command("remove", cls=Command)
@examples("penstock tenants remove acme")
@spread
def remove_tenant(name: Name, where: Where, output: Output) -> None:
    """Forget what was set for a tenant; its jobs stay."""
    from penstock.cli.tuning import remove_tenant

    asyncio.run(remove_tenant(name, where, output))
