"""`penstock workflows`: jobs that wait for each other."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from penstock.cli.commands import Command, examples, group
from penstock.cli.duration import Timeout
from penstock.cli.jobs import Yes
from penstock.cli.output import Output
from penstock.cli.spread import spread
from penstock.cli.where import Where

app = group(
    "workflows",
    help="Look at workflows, wait for, cancel or retry them.\n\n"
    "`penstock jobs list --workflow ID` has the jobs of one.",
)

Id = Annotated[str, typer.Argument(metavar="ID", help="The workflow.")]
Tenant = Annotated[str | None, typer.Option(help="Only this tenant's.", show_default=False)]


@app.command("list", cls=Command)
@examples("penstock workflows list", "penstock workflows list --tenant acme --json")
@spread
def list_workflows(
    *,
    tenant: Tenant = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 20,
    after: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Those older than this workflow.", show_default=False),
    ] = None,
    where: Where,
    output: Output,
) -> None:
    """List workflows, newest first: how far each is, and what waits for a person."""
    from penstock.cli.flowing import list_page

    asyncio.run(list_page(tenant, where, output, limit, after))


@app.command("show", cls=Command)
@examples("penstock workflows show 5", "penstock workflows show 5 --watch")
@spread
def show(
    *,
    workflow: Id,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on until it has ended.")] = False,
    tenant: Tenant = None,
    where: Where,
    output: Output,
) -> None:
    """Draw a workflow: its steps below those that they wait for, with their states.

    Steps of one task that wait for the same ones, and are waited for by the same ones, are one
    line. With --watch the exit code is 5 unless the workflow completed.
    """
    from penstock.cli.flowing import show_workflow, wait_for

    if watch:
        asyncio.run(wait_for(workflow, tenant, where, output, None))
    else:
        asyncio.run(show_workflow(workflow, tenant, where, output))


@app.command("wait", cls=Command)
@examples("penstock workflows wait 5 --timeout 30s")
@spread
def wait(
    *, workflow: Id, timeout: Timeout = None, tenant: Tenant = None, where: Where, output: Output
) -> None:
    """Wait until a workflow has ended; the exit code is 5 unless it completed."""
    from penstock.cli.flowing import wait_for

    asyncio.run(wait_for(workflow, tenant, where, output, timeout))


@app.command("cancel", cls=Command)
@examples("penstock workflows cancel 6 --yes")
@spread
def cancel(
    *, workflow: Id, yes: Yes = False, tenant: Tenant = None, where: Where, output: Output
) -> None:
    """End all jobs of a workflow that have not ended, running or not."""
    from penstock.cli.flowing import cancel_workflow

    cancel_workflow(workflow, tenant, where, output, yes=yes)


@app.command("retry", cls=Command)
@examples("penstock workflows retry 5")
@spread
def retry(*, workflow: Id, tenant: Tenant = None, where: Where, output: Output) -> None:
    """Run again what has failed or was cancelled, each job after those that it waits for."""
    from penstock.cli.flowing import retry_workflow

    asyncio.run(retry_workflow(workflow, tenant, where, output))
