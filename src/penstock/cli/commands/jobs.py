"""`penstock jobs`: read jobs and change them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
import typer

from penstock.cli.bulk import CANCEL, DELETE, RETRY, UNBLOCK, Selection, change_jobs
from penstock.cli.database import OpenQueue, open_queue_for
from penstock.cli.filters import JobFilterOptions, StateName
from penstock.cli.follow import follow_job, show_job
from penstock.cli.framework import Command, examples, expand_options, group
from penstock.cli.options import DatabaseOptions, DryRun, Ids, Yes, parse_duration
from penstock.cli.output import Output, draw, print_json, say, terminal
from penstock.cli.screens.jobs import jobs_table
from penstock.job import Job

app = group("jobs", help="Look at jobs; retry, unblock, cancel or delete them.")


@app.command("list", cls=Command)
@examples(
    "penstock jobs list",
    "penstock jobs list --state failed --since 2h",
    "penstock jobs list --task shop.send --queue mail --limit 10",
    "penstock jobs list --subject document:42 --all --json",
    "penstock jobs list --batch 7 --state failed",
    "penstock jobs list --workflow 5 --state blocked",
    "penstock jobs list --late --queue mail",
)
@expand_options
def list_jobs(
    *,
    filter: JobFilterOptions,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 20,
    after: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Those older than this job.", show_default=False),
    ] = None,
    all_pages: Annotated[bool, typer.Option("--all", help="All of them, page by page.")] = False,
    late: Annotated[
        bool,
        typer.Option("--late", help="Those past their soft deadline, the latest of them first."),
    ] = False,
    db: DatabaseOptions,
    output: Output,
) -> None:
    """List jobs, newest first, live and ended alike."""
    if late:
        within = filter.batch or filter.workflow
        if all_pages or after or within or filter.since or filter.until:
            raise typer.BadParameter(
                "--late cannot be used with --all, --after, --batch, --workflow, --since or --until"
            )
        asyncio.run(_list_late(filter, db, output, limit))
    elif all_pages:
        asyncio.run(_list_all(filter, db, output, after))
    else:
        asyncio.run(_list_page(filter, db, output, limit, after))


@app.command("show", cls=Command)
@examples(
    "penstock jobs show 42",
    "penstock jobs show 42 --json",
    "penstock jobs show 42 --follow --timeout 30s",
)
@expand_options
def show(
    *,
    job: Annotated[str, typer.Argument(metavar="ID", help="The job.")],
    tenant: Annotated[
        str | None, typer.Option(help="Only if it is this tenant's.", show_default=False)
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until it has ended; 5 if it failed.")
    ] = False,
    timeout: Annotated[
        float | None,
        typer.Option(
            parser=parse_duration,
            metavar="DURATION",
            help="With --follow: the longest to wait; then the exit code is 6.",
            show_default=False,
        ),
    ] = None,
    db: DatabaseOptions,
    output: Output,
) -> None:
    """Show everything about one job: state, why it waits, errors, arguments, result, timeline."""
    if follow:
        asyncio.run(follow_job(job, tenant, db, output, timeout))
    elif timeout is not None:
        raise typer.BadParameter("--timeout can only be used with --follow")
    else:
        asyncio.run(show_job(job, tenant, db, output))


@app.command("retry", cls=Command)
@examples(
    "penstock jobs retry 42",
    "penstock jobs retry --task shop.send --since 1d --dry-run",
    "penstock jobs retry --state failed --queue mail --yes",
)
@expand_options
def retry(
    *,
    ids: Ids = None,
    filter: JobFilterOptions,
    dry_run: DryRun = False,
    yes: Yes = False,
    db: DatabaseOptions,
    output: Output,
) -> None:
    """Run jobs again: those that ended come back under their ids, scheduled ones are due now.

    A filter without a state means failed jobs. A completed job runs again only after a question.
    """
    selection = Selection.of(ids, filter, [StateName.failed])
    change_jobs(RETRY, selection, db, output, dry_run=dry_run, yes=yes)


@app.command("cancel", cls=Command)
@examples(
    "penstock jobs cancel 42",
    "penstock jobs cancel --subject document:42 --yes",
    "penstock jobs cancel --queue mail --tenant acme --dry-run",
)
@expand_options
def cancel(
    *,
    ids: Ids = None,
    filter: JobFilterOptions,
    dry_run: DryRun = False,
    yes: Yes = False,
    db: DatabaseOptions,
    output: Output,
) -> None:
    """End jobs now, running or not; a worker that runs one is told to stop it.

    A filter without a state means all that have not ended.
    """
    states = [StateName.scheduled, StateName.ready, StateName.running, StateName.blocked]
    selection = Selection.of(ids, filter, states)
    change_jobs(CANCEL, selection, db, output, dry_run=dry_run, yes=yes)


@app.command("unblock", cls=Command)
@examples("penstock jobs unblock 46", "penstock jobs unblock --workflow 6 --dry-run")
@expand_options
def unblock(
    *,
    ids: Ids = None,
    filter: JobFilterOptions,
    dry_run: DryRun = False,
    yes: Yes = False,
    db: DatabaseOptions,
    output: Output,
) -> None:
    """Let jobs of workflows run that wait for others, whatever becomes of those.

    A filter without a state means blocked jobs.
    """
    selection = Selection.of(ids, filter, [StateName.blocked])
    change_jobs(UNBLOCK, selection, db, output, dry_run=dry_run, yes=yes)


@app.command("delete", cls=Command)
@examples(
    "penstock jobs delete 42",
    "penstock jobs delete --state cancelled --until 7d --dry-run",
    "penstock jobs delete --tenant acme --yes",
)
@expand_options
def delete(
    *,
    ids: Ids = None,
    filter: JobFilterOptions,
    dry_run: DryRun = False,
    yes: Yes = False,
    db: DatabaseOptions,
    output: Output,
) -> None:
    """Erase jobs with all that is kept about them; one that runs must be cancelled first.

    A filter without a state means jobs that have ended.
    """
    states = [StateName.completed, StateName.failed, StateName.cancelled]
    selection = Selection.of(ids, filter, states)
    change_jobs(DELETE, selection, db, output, dry_run=dry_run, yes=yes)


async def _list_page(
    filter: JobFilterOptions, db: DatabaseOptions, output: Output, limit: int, after: str | None
) -> None:
    """Print one page of jobs, and the cursor of the next page."""
    async with open_queue_for(db, filter.tenant) as queue:
        jobs, following = await anext(filter.pages(queue, after=after, size=limit))
        if not jobs:
            await _require_batch_and_workflow(filter, queue)
        late = await queue.insights.lateness(jobs)
    document = {"jobs": _documents(jobs, late), "after": following}
    output.show(document, lambda: jobs_table(jobs, terminal().width, late))
    if following and not output.as_json:
        say(f"There may be more: --after {following}, or --all.")


async def _list_all(
    filter: JobFilterOptions, db: DatabaseOptions, output: Output, after: str | None
) -> None:
    """Print all pages of jobs, as one JSON document or as a table for each page."""
    documents: list[dict[str, Any]] = []
    async with open_queue_for(db, filter.tenant) as queue:
        async for jobs, _ in filter.pages(queue, after=after):
            if not jobs:
                await _require_batch_and_workflow(filter, queue)
            late = await queue.insights.lateness(jobs)
            if output.as_json:
                documents += _documents(jobs, late)
            elif jobs:
                draw(jobs_table(jobs, terminal().width, late))
    if output.as_json:
        print_json({"jobs": documents, "after": None})


async def _list_late(
    filter: JobFilterOptions, db: DatabaseOptions, output: Output, limit: int
) -> None:
    """Print the jobs that are past their soft deadline, the most overdue jobs first."""
    async with open_queue_for(db, filter.tenant) as queue:
        # One more than is shown tells whether there are more.
        late_jobs = await queue.insights.late(
            limit + 1,
            states=filter.state,
            queue=filter.queue,
            task=filter.task,
            tenant=filter.tenant,
            subject=filter.subject,
            tag=filter.tag,
        )
    more = len(late_jobs) > limit
    jobs = [job for job, _ in late_jobs[:limit]]
    late = {job.id: seconds for job, seconds in late_jobs}
    document = {"jobs": _documents(jobs, late), "after": None, "more": more}
    output.show(document, lambda: jobs_table(jobs, terminal().width, late))
    if more and not output.as_json:
        say("There are more that are late: --limit shows more of them.")


async def _require_batch_and_workflow(filter: JobFilterOptions, queue: OpenQueue) -> None:
    """Raise `BatchNotFound` or `WorkflowNotFound` if the filter names one that does not exist."""
    if filter.batch is not None:
        await queue.client.get_batch(filter.batch)
    if filter.workflow is not None:
        await queue.client.get_workflow(filter.workflow)


def _documents(jobs: Sequence[Job], late: Mapping[str, float]) -> list[dict[str, Any]]:
    """Return jobs as JSON objects with their own fields and the seconds by which each is late."""
    return [msgspec.to_builtins(job) | {"late": late.get(job.id)} for job in jobs]
