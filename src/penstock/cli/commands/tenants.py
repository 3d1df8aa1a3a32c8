"""`penstock tenants` and `penstock plans`: settings of tenants, by themselves or by plan."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from penstock.cli import tables
from penstock.cli.database import current_user, open_queue
from penstock.cli.framework import Command, examples, expand_options, group
from penstock.cli.options import DatabaseOptions, parse_duration
from penstock.cli.output import Output, say, terminal
from penstock.cli.settings import (
    Changes,
    given_settings,
    jobs_per_turn,
    join_clauses,
    late_clause,
    or_none,
    require_set,
)
from penstock.cli.tables import format_duration
from penstock.groups.settings import Plan, Tenant

app = group("tenants", help="Look at tenants' plans, and change them.")

TenantName = Annotated[str, typer.Argument(metavar="TENANT", help="The tenant by its name.")]


@app.command("list", cls=Command)
@examples("penstock tenants list --plan gold")
@expand_options
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
    db: DatabaseOptions,
    output: Output,
) -> None:
    """List the tenants that something is set for, by name."""
    asyncio.run(_show_tenants(plan, after, limit, db, output))


@app.command("set", cls=Command)
@examples("penstock tenants set acme --plan gold")
@expand_options
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
            parser=or_none(parse_duration),
            metavar="DURATION",
            help="How long after its time a job is late; none takes it away.",
            show_default=False,
        ),
    ] = None,
    db: DatabaseOptions,
    output: Output,
) -> None:
    """Change what holds for a tenant; what is not given stays as it is."""
    asyncio.run(_set_tenant(name, given_settings(plan=plan, late_after=late_after), db, output))


@app.command("remove", cls=Command)
@examples("penstock tenants remove acme")
@expand_options
def remove_tenant(name: TenantName, db: DatabaseOptions, output: Output) -> None:
    """Forget what was set for a tenant; its jobs stay."""
    asyncio.run(_remove_tenant(name, db, output))


plans = group("plans", help="Look at the plans of tenants, and change them.")

PlanName = Annotated[str, typer.Argument(metavar="PLAN", help="The plan by its name.")]


@plans.command("list", cls=Command)
@examples("penstock plans list")
@expand_options
def list_plans(db: DatabaseOptions, output: Output) -> None:
    """List the plans."""
    asyncio.run(_show_plans(db, output))


@plans.command("set", cls=Command)
@examples("penstock plans set gold --priority 10 --weight 5 --late-after 1m")
@expand_options
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
            parser=or_none(parse_duration),
            metavar="DURATION",
            help="How long after its time a job is late; none takes it away.",
            show_default=False,
        ),
    ] = None,
    db: DatabaseOptions,
    output: Output,
) -> None:
    """Make a plan, or change it; what is not given stays as it is."""
    changes = given_settings(priority=priority, weight=weight, late_after=late_after)
    asyncio.run(_set_plan(name, changes, db, output))


@plans.command("remove", cls=Command)
@examples("penstock plans remove trial")
@expand_options
def remove_plan(name: PlanName, db: DatabaseOptions, output: Output) -> None:
    """Take a plan away that no tenant has."""
    asyncio.run(_remove_plan(name, db, output))


def _plan_sentence(plan: Plan) -> str:
    return join_clauses(
        f"The plan {plan.name} adds {plan.priority} to priorities",
        f"a tenant's lane gets {jobs_per_turn(plan.weight)} in each turn",
        late_clause(plan.late_after),
    )


def _tenant_sentence(tenant: Tenant) -> str:
    plan_clause = f"has the plan {tenant.plan}" if tenant.plan else "has no plan"
    return join_clauses(f"The tenant {tenant.name} {plan_clause}", late_clause(tenant.late_after))


def _plans_table(plans: Sequence[Plan], width: int) -> RenderableType:
    if not plans:
        return tables.empty_text("There are no plans.")
    builder = tables.TableBuilder(width, fills=False)
    builder.column("plan", max_width=max(16, width // 3))
    for name in ("priority", "weight", "late after"):
        builder.column(name, align_right=True)
    for plan in plans:
        builder.row(
            plan.name, f"{plan.priority:+}", f"{plan.weight}", _late_after_text(plan.late_after)
        )
    return builder.table


def _tenants_table(tenants: Sequence[Tenant], width: int) -> RenderableType:
    if not tenants:
        return tables.empty_text("Nothing is set for tenants.")
    builder = tables.TableBuilder(width, fills=False)
    builder.column("tenant", max_width=max(16, width // 3))
    builder.column("plan", max_width=max(16, width // 3))
    builder.column("late after", align_right=True)
    for tenant in tenants:
        builder.row(
            tenant.name,
            tenant.plan or Text("none", tables.FAINT),
            _late_after_text(tenant.late_after),
        )
    return builder.table


def _late_after_text(late_after: float | None) -> Text:
    return Text("never", tables.FAINT) if late_after is None else Text(format_duration(late_after))


async def _show_plans(db: DatabaseOptions, output: Output) -> None:
    async with open_queue(db) as queue:
        plans = await queue.app.plans()
    output.show({"plans": plans}, lambda: _plans_table(plans, terminal().width))


async def _set_plan(name: str, changes: Changes, db: DatabaseOptions, output: Output) -> None:
    async with open_queue(db) as queue:
        plan = await queue.app.set_plan(name, **changes, by=current_user())
    output.show(plan, lambda: _plan_sentence(plan))


async def _remove_plan(name: str, db: DatabaseOptions, output: Output) -> None:
    async with open_queue(db) as queue:
        removed = await queue.app.remove_plan(name, by=current_user())
    require_set(removed, f"There is no plan {name}.")
    output.show({"name": name, "removed": True}, lambda: f"The plan {name} was removed.")


async def _show_tenants(
    plan: str | None, after: str | None, limit: int, db: DatabaseOptions, output: Output
) -> None:
    async with open_queue(db) as queue:
        tenants = await queue.app.tenants(plan=plan, after=after, limit=limit)
    next_name = tenants[-1].name if len(tenants) == limit else None
    document = {"tenants": tenants, "after": next_name}
    output.show(document, lambda: _tenants_table(tenants, terminal().width))
    if next_name is not None and not output.as_json:
        say(f"There may be more: --after {next_name}")


async def _set_tenant(name: str, changes: Changes, db: DatabaseOptions, output: Output) -> None:
    async with open_queue(db) as queue:
        tenant = await queue.app.set_tenant(name, **changes, by=current_user())
    output.show(tenant, lambda: _tenant_sentence(tenant))


async def _remove_tenant(name: str, db: DatabaseOptions, output: Output) -> None:
    async with open_queue(db) as queue:
        removed = await queue.app.remove_tenant(name, by=current_user())
    require_set(removed, f"Nothing is set for the tenant {name}.")
    document = {"name": name, "removed": True}
    output.show(document, lambda: f"Nothing is set for the tenant {name} any more.")
