"""`penstock jobs`: look at jobs, and change them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
import typer

from penstock.cli.bulk import CANCEL, DELETE, RETRY, UNBLOCK, Which, change
from penstock.cli.database import Reached, reached_for
from penstock.cli.filters import Filter, StateName
from penstock.cli.follow import follow_job, show_job
from penstock.cli.framework import Command, examples, group, spread
from penstock.cli.options import DryRun, Ids, Where, Yes, seconds
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
@spread
def list_jobs(
    *,
    filter: Filter,
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
    where: Where,
    output: Output,
) -> None:
    """List jobs, newest first, live and ended alike."""
    if late:
        within = filter.batch or filter.workflow
        if all_pages or after or within or filter.since or filter.until:
            raise typer.BadParameter(
                "--late goes with neither --all, --after, --batch, --workflow, --since nor --until"
            )
        asyncio.run(_list_late(filter, where, output, limit))
    elif all_pages:
        asyncio.run(_list_all(filter, where, output, after))
    else:
        asyncio.run(_list_page(filter, where, output, limit, after))


@app.command("show", cls=Command)
@examples(
    "penstock jobs show 42",
    "penstock jobs show 42 --json",
    "penstock jobs show 42 --follow --timeout 30s",
)
@spread
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
            parser=seconds,
            metavar="DURATION",
            help="With --follow: the longest to wait; then the exit code is 6.",
            show_default=False,
        ),
    ] = None,
    where: Where,
    output: Output,
) -> None:
    """Show everything about one job: state, why it waits, errors, arguments, result, timeline."""
    if follow:
        asyncio.run(follow_job(job, tenant, where, output, timeout))
    elif timeout is not None:
        raise typer.BadParameter("--timeout goes with --follow")
    else:
        asyncio.run(show_job(job, tenant, where, output))


@app.command("retry", cls=Command)
@examples(
    "penstock jobs retry 42",
    "penstock jobs retry --task shop.send --since 1d --dry-run",
    "penstock jobs retry --state failed --queue mail --yes",
)
@spread
def retry(
    *,
    ids: Ids = None,
    filter: Filter,
    dry_run: DryRun = False,
    yes: Yes = False,
    where: Where,
    output: Output,
) -> None:
    """Run jobs again: those that ended come back under their ids, scheduled ones are due now.

    A filter without a state means failed jobs. A completed job runs again only after a question.
    """
    which = Which.of(ids, filter, [StateName.failed])
    change(RETRY, which, where, output, dry_run=dry_run, yes=yes)


@app.command("cancel", cls=Command)
@examples(
    "penstock jobs cancel 42",
    "penstock jobs cancel --subject document:42 --yes",
    "penstock jobs cancel --queue mail --tenant acme --dry-run",
)
@spread
def cancel(
    *,
    ids: Ids = None,
    filter: Filter,
    dry_run: DryRun = False,
    yes: Yes = False,
    where: Where,
    output: Output,
) -> None:
    """End jobs now, running or not; a worker that runs one is told to stop it.

    A filter without a state means all that have not ended.
    """
    states = [StateName.scheduled, StateName.ready, StateName.running, StateName.blocked]
    which = Which.of(ids, filter, states)
    change(CANCEL, which, where, output, dry_run=dry_run, yes=yes)


@app.command("unblock", cls=Command)
@examples("penstock jobs unblock 46", "penstock jobs unblock --workflow 6 --dry-run")
@spread
def unblock(
    *,
    ids: Ids = None,
    filter: Filter,
    dry_run: DryRun = False,
    yes: Yes = False,
    where: Where,
    output: Output,
) -> None:
    """Let jobs of workflows run that wait for others, whatever becomes of those.

    A filter without a state means blocked jobs.
    """
    which = Which.of(ids, filter, [StateName.blocked])
    change(UNBLOCK, which, where, output, dry_run=dry_run, yes=yes)


@app.command("delete", cls=Command)
@examples(
    "penstock jobs delete 42",
    "penstock jobs delete --state cancelled --until 7d --dry-run",
    "penstock jobs delete --tenant acme --yes",
)
@spread
def delete(
    *,
    ids: Ids = None,
    filter: Filter,
    dry_run: DryRun = False,
    yes: Yes = False,
    where: Where,
    output: Output,
) -> None:
    """Erase jobs with all that is kept about them; one that runs must be cancelled first.

    A filter without a state means jobs that have ended.
    """
    states = [StateName.completed, StateName.failed, StateName.cancelled]
    which = Which.of(ids, filter, states)
    change(DELETE, which, where, output, dry_run=dry_run, yes=yes)


async def _list_page(
    filter: Filter, where: Where, output: Output, limit: int, after: str | None
) -> None:
    """One page, and how to come to the next."""
    async with reached_for(where, filter.tenant) as queue:
        jobs, following = await anext(filter.pages(queue, after=after, size=limit))
        if not jobs:
            await _expect(filter, queue)
        late = await queue.insights.lateness(jobs)
    document = {"jobs": _documents(jobs, late), "after": following}
    output.show(document, lambda: jobs_table(jobs, terminal().width, late))
    if following and not output.as_json:
        say(f"There may be more: --after {following}, or --all.")


async def _list_all(filter: Filter, where: Where, output: Output, after: str | None) -> None:
    """All pages: as one document, or as one table after the other."""
    found: list[dict[str, Any]] = []
    async with reached_for(where, filter.tenant) as queue:
        async for jobs, _ in filter.pages(queue, after=after):
            if not jobs:
                await _expect(filter, queue)
            late = await queue.insights.lateness(jobs)
            if output.as_json:
                found += _documents(jobs, late)
            elif jobs:
                draw(jobs_table(jobs, terminal().width, late))
    if output.as_json:
        print_json({"jobs": found, "after": None})


async def _list_late(filter: Filter, where: Where, output: Output, limit: int) -> None:
    """Those past their soft deadline, the latest first."""
    async with reached_for(where, filter.tenant) as queue:
        # One more than are shown, to see whether there are more.
        found = await queue.insights.late(
            limit + 1,
            states=filter.state,
            queue=filter.queue,
            task=filter.task,
            tenant=filter.tenant,
            subject=filter.subject,
            tag=filter.tag,
        )
    more = len(found) > limit
    jobs = [job for job, _ in found[:limit]]
    late = {job.id: seconds for job, seconds in found}
    document = {"jobs": _documents(jobs, late), "after": None, "more": more}
    output.show(document, lambda: jobs_table(jobs, terminal().width, late))
    if more and not output.as_json:
        say("There are more that are late: --limit shows more of them.")


async def _expect(filter: Filter, queue: Reached) -> None:
    """The batch and the workflow that are named must be there, or no job can be of them."""
    if filter.batch is not None:
        await queue.client.get_batch(filter.batch)
    if filter.workflow is not None:
        await queue.client.get_workflow(filter.workflow)


def _documents(jobs: Sequence[Job], late: Mapping[str, float]) -> list[dict[str, Any]]:
    """Jobs for programs: their own fields, and by how many seconds each is late."""
    return [msgspec.to_builtins(job) | {"late": late.get(job.id)} for job in jobs]
