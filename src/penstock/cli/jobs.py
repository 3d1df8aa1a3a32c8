"""`penstock jobs`: look at jobs, and change them."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from penstock.cli.commands import Command, examples, group
from penstock.cli.duration import seconds
from penstock.cli.filters import Filter, StateName
from penstock.cli.output import Output
from penstock.cli.spread import spread
from penstock.cli.where import Where

app = group("jobs", help="Look at jobs; retry, unblock, cancel or delete them.")

Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID", help="The jobs; or say which ones by filters."),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Only say which jobs it would be, and change nothing.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before many are changed.")]


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
    from penstock.cli.listing import list_all, list_late, list_page

    if late:
        within = filter.batch or filter.workflow
        if all_pages or after or within or filter.since or filter.until:
            raise typer.BadParameter(
                "--late goes with neither --all, --after, --batch, --workflow, --since nor --until"
            )
        asyncio.run(list_late(filter, where, output, limit))
    elif all_pages:
        asyncio.run(list_all(filter, where, output, after))
    else:
        asyncio.run(list_page(filter, where, output, limit, after))


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
    from penstock.cli.showing import follow_job, show_job

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
    from penstock.cli.changing import RETRY, Which, change

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
    from penstock.cli.changing import CANCEL, Which, change

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
    from penstock.cli.changing import UNBLOCK, Which, change

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
    from penstock.cli.changing import DELETE, Which, change

    states = [StateName.completed, StateName.failed, StateName.cancelled]
    which = Which.of(ids, filter, states)
    change(DELETE, which, where, output, dry_run=dry_run, yes=yes)
