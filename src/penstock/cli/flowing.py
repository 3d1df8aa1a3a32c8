"""What `penstock workflows` does."""

from __future__ import annotations

import asyncio

import msgspec
import typer

from penstock.cli.changed import Changed
from penstock.cli.confirm import confirm
from penstock.cli.exits import Exit
from penstock.cli.following import Course, follow
from penstock.cli.given import user
from penstock.cli.opening import Reached, reached_for
from penstock.cli.output import Output, say, terminal
from penstock.cli.screens.workflows import workflow_page, workflows_table
from penstock.cli.where import Where
from penstock.errors import WorkflowNotFound, WorkflowTimeout
from penstock.groups.workflows import WorkflowStatus
from penstock.job import FINAL
from penstock.wording import counted


async def list_page(
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


async def show_workflow(workflow: str, tenant: str | None, where: Where, output: Output) -> None:
    async with reached_for(where, tenant) as queue:
        seen = await _expected(queue, workflow, tenant)
    output.show(seen, lambda: workflow_page(seen))


async def wait_for(
    workflow: str, tenant: str | None, where: Where, output: Output, timeout: float | None
) -> None:
    """Wait with the graph on stderr; the exit code says whether it completed."""
    async with reached_for(where, tenant) as queue:
        await _expected(queue, workflow, tenant)
        seen = await _until_ended(queue, workflow, timeout)
    output.show(seen, lambda: workflow_page(seen))
    raise typer.Exit(Exit.OK if seen.state == "completed" else Exit.FAILED)


def cancel_workflow(
    workflow: str, tenant: str | None, where: Where, output: Output, *, yes: bool
) -> None:
    """End what lives, after a question."""
    if not yes:
        seen = asyncio.run(_look_once(workflow, tenant, where))
        live = sum(number for state, number in seen.counts.items() if state not in FINAL)
        confirm(f"{counted(live, 'job')} of workflow {workflow} will be cancelled.")
    Changed("cancelled", asyncio.run(_cancelled(workflow, tenant, where))).show(output)


async def retry_workflow(workflow: str, tenant: str | None, where: Where, output: Output) -> None:
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
