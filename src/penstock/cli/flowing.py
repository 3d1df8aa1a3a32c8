"""What `penstock workflows` does."""

from __future__ import annotations

import asyncio

import typer

from penstock.cli.changing import sentence
from penstock.cli.confirm import confirm
from penstock.cli.errors import DatabaseUnreachable
from penstock.cli.exits import Exit
from penstock.cli.given import user
from penstock.cli.opening import Reached, plain_errors, reached_for
from penstock.cli.output import Output, say, terminal
from penstock.cli.screens.workflows import workflow_page, workflows_table
from penstock.cli.showing import AWAY
from penstock.cli.where import Where
from penstock.client import WorkflowStatus
from penstock.client.waiting import Patience
from penstock.errors import DatabaseLost, WorkflowNotFound
from penstock.wording import counted


async def list_page(
    tenant: str | None, where: Where, output: Output, limit: int, after: str | None
) -> None:
    async with reached_for(where, tenant) as queue:
        page = await queue.client.workflows(tenant=tenant, after=after, limit=limit)
    output.show(page, lambda: workflows_table(page.workflows, terminal().width))
    if page.after and not output.as_json:
        say(f"There may be more: --after {page.after}.")


async def show_workflow(
    workflow: str, tenant: str | None, where: Where, output: Output, *, watch: bool
) -> None:
    async with reached_for(where, tenant) as queue:
        seen = await _expected(queue, workflow, tenant)
        if watch:
            seen = await _until_ended(queue, workflow)
    output.show(seen, lambda: workflow_page(seen))
    if watch and seen.state != "completed":
        raise typer.Exit(Exit.FAILED)


def cancel_workflow(
    workflow: str, tenant: str | None, where: Where, output: Output, *, yes: bool
) -> None:
    """End what lives, after a question."""
    if not yes:
        seen = asyncio.run(_look_once(workflow, tenant, where))
        live = sum(seen.counts.get(each, 0) for each in ("scheduled", "ready", "running"))
        live += seen.counts.get("blocked", 0)
        confirm(f"{counted(live, 'job')} of workflow {workflow} will be cancelled.")
    number = asyncio.run(_cancelled(workflow, tenant, where))
    output.show({"cancelled": number}, lambda: sentence(number, "cancelled", {}))


async def retry_workflow(workflow: str, tenant: str | None, where: Where, output: Output) -> None:
    async with reached_for(where, tenant) as queue:
        await _expected(queue, workflow, tenant)
        number = await queue.client.retry_workflow(workflow, by=user())
    output.show({"retried": number}, lambda: sentence(number, "retried", {}))


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


async def _until_ended(queue: Reached, workflow: str) -> WorkflowStatus:
    """Wait for a workflow's end, and meanwhile draw it on stderr if that is a terminal."""
    from rich.live import Live

    patience = Patience(None)
    console = terminal(stderr=True)
    with Live(console=console, transient=True, auto_refresh=False) as live:
        while not (seen := await _look(queue, workflow)).is_final:
            if console.is_terminal:
                live.update(workflow_page(seen), refresh=True)
            await patience.pause()
    return seen


async def _look(queue: Reached, workflow: str) -> WorkflowStatus:
    """Look at a workflow. A database that is away is waited for: most come back."""
    away = Patience(AWAY)
    while True:
        try:
            with plain_errors(queue.app.database):
                return await queue.client.get_workflow(workflow)
        except (DatabaseUnreachable, DatabaseLost):
            if away.is_over:
                raise
        await away.pause()
