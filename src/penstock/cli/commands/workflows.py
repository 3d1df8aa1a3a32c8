"""`penstock workflows`: read workflows, wait for, cancel or retry them."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
import typer

from penstock.cli.bulk import ChangeResult
from penstock.cli.database import OpenQueue, current_user, open_queue_for
from penstock.cli.follow import Followed, follow
from penstock.cli.framework import Command, Exit, examples, expand_options, group
from penstock.cli.options import DatabaseOptions, Timeout, Yes, confirm
from penstock.cli.output import Output, say, terminal
from penstock.cli.screens.workflows import workflow_page, workflows_table
from penstock.errors import WorkflowNotFound, WorkflowTimeout
from penstock.groups.workflows import WorkflowStatus
from penstock.job import FINAL
from penstock.wording import counted

app = group(
    "workflows",
    help="Look at workflows, wait for, cancel or retry them.\n\n"
    "`penstock jobs list --workflow ID` has the jobs of one.",
)

Id = Annotated[str, typer.Argument(metavar="ID", help="The workflow.")]
Tenant = Annotated[str | None, typer.Option(help="Only this tenant's.", show_default=False)]


@app.command("list", cls=Command)
@examples("penstock workflows list", "penstock workflows list --tenant acme --json")
@expand_options
def list_workflows(
    *,
    tenant: Tenant = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 20,
    after: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Those older than this workflow.", show_default=False),
    ] = None,
    db: DatabaseOptions,
    output: Output,
) -> None:
    """List workflows, newest first: how far each is, and what waits for a person."""
    asyncio.run(_list_page(tenant, db, output, limit, after))


@app.command("show", cls=Command)
@examples("penstock workflows show 5", "penstock workflows show 5 --watch")
@expand_options
def show(
    *,
    workflow: Id,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on until it has ended.")] = False,
    tenant: Tenant = None,
    db: DatabaseOptions,
    output: Output,
) -> None:
    """Draw a workflow: its steps below those that they wait for, with their states.

    Steps of one task that wait for the same ones, and are waited for by the same ones, are one
    line. With --watch the exit code is 5 unless the workflow completed.
    """
    if watch:
        asyncio.run(_wait(workflow, tenant, db, output, None))
    else:
        asyncio.run(_show_workflow(workflow, tenant, db, output))


@app.command("wait", cls=Command)
@examples("penstock workflows wait 5 --timeout 30s")
@expand_options
def wait(
    *,
    workflow: Id,
    timeout: Timeout = None,
    tenant: Tenant = None,
    db: DatabaseOptions,
    output: Output,
) -> None:
    """Wait until a workflow has ended; the exit code is 5 unless it completed."""
    asyncio.run(_wait(workflow, tenant, db, output, timeout))


@app.command("cancel", cls=Command)
@examples("penstock workflows cancel 6 --yes")
@expand_options
def cancel(
    *, workflow: Id, yes: Yes = False, tenant: Tenant = None, db: DatabaseOptions, output: Output
) -> None:
    """End all jobs of a workflow that have not ended, running or not."""
    _cancel_workflow(workflow, tenant, db, output, yes=yes)


@app.command("retry", cls=Command)
@examples("penstock workflows retry 5")
@expand_options
def retry(*, workflow: Id, tenant: Tenant = None, db: DatabaseOptions, output: Output) -> None:
    """Run again what has failed or was cancelled, each job after those that it waits for."""
    asyncio.run(_retry_workflow(workflow, tenant, db, output))


async def _list_page(
    tenant: str | None, db: DatabaseOptions, output: Output, limit: int, after: str | None
) -> None:
    async with open_queue_for(db, tenant) as queue:
        page = await queue.client.workflows(tenant=tenant, after=after, limit=limit)
    document = msgspec.to_builtins(page)
    for workflow in document["workflows"]:
        del workflow["steps"]  # The list does not read steps.
    output.show(document, lambda: workflows_table(page.workflows, terminal().width))
    if page.after and not output.as_json:
        say(f"There may be more: --after {page.after}.")


async def _show_workflow(
    workflow: str, tenant: str | None, db: DatabaseOptions, output: Output
) -> None:
    async with open_queue_for(db, tenant) as queue:
        workflow_status = await _get_workflow(queue, workflow, tenant)
    output.show(workflow_status, lambda: workflow_page(workflow_status))


async def _wait(
    workflow: str, tenant: str | None, db: DatabaseOptions, output: Output, timeout: float | None
) -> None:
    """Wait until a workflow has ended, and exit with `FAILED` unless it completed."""
    async with open_queue_for(db, tenant) as queue:
        await _get_workflow(queue, workflow, tenant)
        workflow_status = await _follow_workflow(queue, workflow, timeout)
    output.show(workflow_status, lambda: workflow_page(workflow_status))
    raise typer.Exit(Exit.OK if workflow_status.state == "completed" else Exit.FAILED)


def _cancel_workflow(
    workflow: str, tenant: str | None, db: DatabaseOptions, output: Output, *, yes: bool
) -> None:
    """Cancel the jobs of a workflow that have not ended. Without `yes`, ask the user first."""
    if not yes:
        workflow_status = asyncio.run(_read_workflow(workflow, tenant, db))
        live = sum(number for state, number in workflow_status.counts.items() if state not in FINAL)
        confirm(f"{counted(live, 'job')} of workflow {workflow} will be cancelled.")
    ChangeResult("cancelled", asyncio.run(_cancel_all(workflow, tenant, db))).show(output)


async def _retry_workflow(
    workflow: str, tenant: str | None, db: DatabaseOptions, output: Output
) -> None:
    async with open_queue_for(db, tenant) as queue:
        await _get_workflow(queue, workflow, tenant)
        changed = ChangeResult(
            "retried", await queue.client.retry_workflow(workflow, by=current_user())
        )
    changed.show(output)


async def _cancel_all(workflow: str, tenant: str | None, db: DatabaseOptions) -> int:
    async with open_queue_for(db, tenant) as queue:
        await _get_workflow(queue, workflow, tenant)
        return await queue.client.cancel_workflow(workflow, by=current_user())


async def _read_workflow(workflow: str, tenant: str | None, db: DatabaseOptions) -> WorkflowStatus:
    async with open_queue_for(db, tenant) as queue:
        return await _get_workflow(queue, workflow, tenant)


async def _get_workflow(queue: OpenQueue, workflow: str, tenant: str | None) -> WorkflowStatus:
    """Return the workflow; raise `WorkflowNotFound` if it belongs to another tenant."""
    workflow_status = await queue.client.get_workflow(workflow)
    if tenant is not None and workflow_status.tenant != tenant:
        raise WorkflowNotFound(workflow)
    return workflow_status


async def _follow_workflow(
    queue: OpenQueue, workflow: str, timeout: float | None
) -> WorkflowStatus:
    async def timeout_error(workflow_status: WorkflowStatus, waited: float) -> WorkflowTimeout:
        why = await queue.client.why_workflow(workflow)
        return WorkflowTimeout(workflow, workflow_status.state, waited, why)

    followed = Followed(
        "Workflow",
        workflow,
        read=lambda: queue.client.get_workflow(workflow),
        is_over=lambda workflow_status: workflow_status.is_final,
        draw=workflow_page,
        timeout_error=timeout_error,
    )
    return await follow(queue, followed, timeout)
