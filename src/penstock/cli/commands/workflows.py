"""`penstock workflows`: jobs that wait for each other."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
import typer

from penstock.cli.bulk import Changed
from penstock.cli.database import Reached, reached_for, user
from penstock.cli.follow import Course, follow
from penstock.cli.framework import Command, Exit, examples, group, spread
from penstock.cli.options import Timeout, Where, Yes, confirm
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
    asyncio.run(_list_page(tenant, where, output, limit, after))


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
    if watch:
        asyncio.run(_wait_for(workflow, tenant, where, output, None))
    else:
        asyncio.run(_show_workflow(workflow, tenant, where, output))


@app.command("wait", cls=Command)
@examples("penstock workflows wait 5 --timeout 30s")
@spread
def wait(
    *, workflow: Id, timeout: Timeout = None, tenant: Tenant = None, where: Where, output: Output
) -> None:
    """Wait until a workflow has ended; the exit code is 5 unless it completed."""
    asyncio.run(_wait_for(workflow, tenant, where, output, timeout))


@app.command("cancel", cls=Command)
@examples("penstock workflows cancel 6 --yes")
@spread
def cancel(
    *, workflow: Id, yes: Yes = False, tenant: Tenant = None, where: Where, output: Output
) -> None:
    """End all jobs of a workflow that have not ended, running or not."""
    _cancel_workflow(workflow, tenant, where, output, yes=yes)


@app.command("retry", cls=Command)
@examples("penstock workflows retry 5")
@spread
def retry(*, workflow: Id, tenant: Tenant = None, where: Where, output: Output) -> None:
    """Run again what has failed or was cancelled, each job after those that it waits for."""
    asyncio.run(_retry_workflow(workflow, tenant, where, output))


async def _list_page(
    tenant: str | None, where: Where, output: Output, limit: int, after: str | None
) -> None:
    async with reached_for(where, tenant) as queue:
        page = await queue.client.workflows(tenant=tenant, after=after, limit=limit)
    document = msgspec.to_builtins(page)
    for each in document["workflows"]:
        del each["steps"]  # a list does not read them
    output.show(document, lambda: workflows_table(page.workflows, terminal().width))
    if page.after and not output.as_json:
        say(f"There may be more: --after {page.after}.")


async def _show_workflow(workflow: str, tenant: str | None, where: Where, output: Output) -> None:
    async with reached_for(where, tenant) as queue:
        seen = await _expected(queue, workflow, tenant)
    output.show(seen, lambda: workflow_page(seen))


async def _wait_for(
    workflow: str, tenant: str | None, where: Where, output: Output, timeout: float | None
) -> None:
    """Wait with the graph on stderr; the exit code says whether it completed."""
    async with reached_for(where, tenant) as queue:
        await _expected(queue, workflow, tenant)
        seen = await _until_ended(queue, workflow, timeout)
    output.show(seen, lambda: workflow_page(seen))
    raise typer.Exit(Exit.OK if seen.state == "completed" else Exit.FAILED)


def _cancel_workflow(
    workflow: str, tenant: str | None, where: Where, output: Output, *, yes: bool
) -> None:
    """End what lives, after a question."""
    if not yes:
        seen = asyncio.run(_look_once(workflow, tenant, where))
        live = sum(number for state, number in seen.counts.items() if state not in FINAL)
        confirm(f"{counted(live, 'job')} of workflow {workflow} will be cancelled.")
    Changed("cancelled", asyncio.run(_cancelled(workflow, tenant, where))).show(output)


async def _retry_workflow(workflow: str, tenant: str | None, where: Where, output: Output) -> None:
    async with reached_for(where, tenant) as queue:
        await _expected(queue, workflow, tenant)
        changed = Changed("retried", await queue.client.retry_workflow(workflow, by=user()))
    changed.show(output)


async def _cancelled(workflow: str, tenant: str | None, where: Where) -> int:
    async with reached_for(where, tenant) as queue:
        await _expected(queue, workflow, tenant)
        return await queue.client.cancel_workflow(workflow, by=user())


async def _look_once(workflow: str, tenant: str | None, where: Where) -> WorkflowStatus:
    async with reached_for(where, tenant) as queue:
        return await _expected(queue, workflow, tenant)


async def _expected(queue: Reached, workflow: str, tenant: str | None) -> WorkflowStatus:
    """Of a tenant that is named another's workflow is not there, whoever asks."""
    seen = await queue.client.get_workflow(workflow)
    if tenant is not None and seen.tenant != tenant:
        raise WorkflowNotFound(workflow)
    return seen


async def _until_ended(queue: Reached, workflow: str, timeout: float | None) -> WorkflowStatus:
    async def late(seen: WorkflowStatus, waited: float) -> WorkflowTimeout:
        why = await queue.client.why_workflow(workflow)
        return WorkflowTimeout(workflow, seen.state, waited, why)

    course = Course(
        "Workflow",
        workflow,
        look=lambda: queue.client.get_workflow(workflow),
        is_over=lambda seen: seen.is_final,
        draw=workflow_page,
        late=late,
    )
    return await follow(queue, course, timeout)
