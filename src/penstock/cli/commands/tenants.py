"""`penstock tenants` and `penstock plans`: what holds for a tenant, by itself or by its plan."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from penstock.cli import tables
from penstock.cli.database import reached, user
from penstock.cli.framework import Command, examples, group, spread
from penstock.cli.options import Where, seconds
from penstock.cli.output import Output, say, terminal
from penstock.cli.settings import (
    Changes,
    expect_set,
    jobs_in_turn,
    lateness,
    or_none,
    sentence,
    settings,
)
from penstock.cli.tables import length
from penstock.groups.settings import Plan, Tenant

app = group("tenants", help="Look at tenants' plans, and change them.")

TenantName = Annotated[str, typer.Argument(metavar="TENANT", help="The tenant by its name.")]


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
    asyncio.run(_show_tenants(plan, after, limit, where, output))


@app.command("set", cls=Command)
@examples("penstock tenants set acme --plan gold")
@spread
def set_tenant(
    *,
    name: TenantName,
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
    asyncio.run(_set_tenant(name, settings(plan=plan, late_after=late_after), where, output))


@app.command("remove", cls=Command)
@examples("penstock tenants remove acme")
@spread
def remove_tenant(name: TenantName, where: Where, output: Output) -> None:
    """Forget what was set for a tenant; its jobs stay."""
    asyncio.run(_remove_tenant(name, where, output))


plans = group("plans", help="Look at the plans of tenants, and change them.")

PlanName = Annotated[str, typer.Argument(metavar="PLAN", help="The plan by its name.")]


@plans.command("list", cls=Command)
@examples("penstock plans list")
@spread
def list_plans(where: Where, output: Output) -> None:
    """List the plans."""
    asyncio.run(_show_plans(where, output))


@plans.command("set", cls=Command)
@examples("penstock plans set gold --priority 10 --weight 5 --late-after 1m")
@spread
def set_plan(
    *,
    name: PlanName,
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
    changes = settings(priority=priority, weight=weight, late_after=late_after)
    asyncio.run(_set_plan(name, changes, where, output))


@plans.command("remove", cls=Command)
@examples("penstock plans remove trial")
@spread
def remove_plan(name: PlanName, where: Where, output: Output) -> None:
    """Take a plan away that no tenant has."""
    asyncio.run(_remove_plan(name, where, output))


def _plan_sentence(found: Plan) -> str:
    return sentence(
        f"The plan {found.name} adds {found.priority} to priorities",
        f"a tenant's lane gets {jobs_in_turn(found.weight)} in each turn",
        lateness(found.late_after),
    )


def _tenant_sentence(found: Tenant) -> str:
    has = f"has the plan {found.plan}" if found.plan else "has no plan"
    return sentence(f"The tenant {found.name} {has}", lateness(found.late_after))


def _plans_table(plans: Sequence[Plan], width: int) -> RenderableType:
    if not plans:
        return tables.nothing("There are no plans.")
    sheet = tables.Sheet(width, fills=False)
    sheet.column("plan", most=max(16, width // 3))
    for name in ("priority", "weight", "late after"):
        sheet.column(name, right=True)
    for each in plans:
        sheet.row(each.name, f"{each.priority:+}", f"{each.weight}", _cell(each.late_after))
    return sheet.table


def _tenants_table(tenants: Sequence[Tenant], width: int) -> RenderableType:
    if not tenants:
        return tables.nothing("Nothing is set for tenants.")
    sheet = tables.Sheet(width, fills=False)
    sheet.column("tenant", most=max(16, width // 3))
    sheet.column("plan", most=max(16, width // 3))
    sheet.column("late after", right=True)
    for each in tenants:
        sheet.row(each.name, each.plan or Text("none", tables.FAINT), _cell(each.late_after))
    return sheet.table


def _cell(late_after: float | None) -> Text:
    return Text("never", tables.FAINT) if late_after is None else Text(length(late_after))


async def _show_plans(where: Where, output: Output) -> None:
    async with reached(where) as queue:
        found = await queue.app.plans()
    output.show({"plans": found}, lambda: _plans_table(found, terminal().width))


async def _set_plan(name: str, changes: Changes, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        found = await queue.app.set_plan(name, **changes, by=user())
    output.show(found, lambda: _plan_sentence(found))


async def _remove_plan(name: str, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        removed = await queue.app.remove_plan(name, by=user())
    expect_set(removed, f"There is no plan {name}.")
    output.show({"name": name, "removed": True}, lambda: f"The plan {name} was removed.")


async def _show_tenants(
    plan: str | None, after: str | None, limit: int, where: Where, output: Output
) -> None:
    async with reached(where) as queue:
        found = await queue.app.tenants(plan=plan, after=after, limit=limit)
    next_one = found[-1].name if len(found) == limit else None
    document = {"tenants": found, "after": next_one}
    output.show(document, lambda: _tenants_table(found, terminal().width))
    if next_one is not None and not output.as_json:
        say(f"There may be more: --after {next_one}")


async def _set_tenant(name: str, changes: Changes, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        found = await queue.app.set_tenant(name, **changes, by=user())
    output.show(found, lambda: _tenant_sentence(found))


async def _remove_tenant(name: str, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        removed = await queue.app.remove_tenant(name, by=user())
    expect_set(removed, f"Nothing is set for the tenant {name}.")
    document = {"name": name, "removed": True}
    output.show(document, lambda: f"Nothing is set for the tenant {name} any more.")
