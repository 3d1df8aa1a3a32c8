"""`penstock dead`: read jobs that failed, retry them or delete them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.text import Text

from penstock.app.client import Client
from penstock.cli import tables
from penstock.cli.bulk import MISSING, ChangeResult, describe_rate, read_jobs
from penstock.cli.database import OpenQueue, current_user, open_queue_for
from penstock.cli.filters import filter_option
from penstock.cli.framework import Command, examples, expand_options, group
from penstock.cli.options import DatabaseOptions, DryRun, Ids, Yes, confirm, parse_past_time
from penstock.cli.output import Output, draw, print_json, say, terminal
from penstock.cli.tables import format_age, format_duration
from penstock.groups.failed import DeadSummary, Purged, Redriven
from penstock.job import FAILED, Job
from penstock.rate import per_second
from penstock.wording import counted

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NO_FAILED_JOBS = "There are no such dead letters."
ROOMY_WIDTH = 120
PAGE_SIZE = 500


@dataclass(frozen=True)
class FailedFilterOptions:
    """A filter of failed jobs. A job must match every option that the user gave."""

    queue: Annotated[str | None, filter_option("Jobs of this queue.")] = None
    task: Annotated[str | None, filter_option("Jobs of this task, by its name.")] = None
    tenant: Annotated[str | None, filter_option("Jobs of this tenant.")] = None
    subject: Annotated[str | None, filter_option("Jobs about this, such as document:42.")] = None
    tag: Annotated[str | None, filter_option("Jobs with this tag.")] = None
    reason: Annotated[
        str | None,
        filter_option(
            "Jobs given up for this reason: exhausted, discarded, poison, worker_lost, …"
        ),
    ] = None
    error: Annotated[
        str | None, filter_option("Jobs whose last error is of this type, such as ValueError.")
    ] = None
    batch: Annotated[str | None, filter_option("Jobs of this batch.", metavar="ID")] = None
    since: Annotated[
        datetime | None,
        filter_option(
            "Jobs that failed since then: 2h, 7d or a time.", parser=parse_past_time, metavar="WHEN"
        ),
    ] = None
    until: Annotated[
        datetime | None,
        filter_option(
            "Jobs that failed before then: 2h, 7d or a time.",
            parser=parse_past_time,
            metavar="WHEN",
        ),
    ] = None

    @property
    def values(self) -> dict[str, Any]:
        """The options that the user gave, as keyword arguments for the client."""
        options = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in options.items() if value is not None}


@dataclass(frozen=True, slots=True)
class FailedSelection:
    """The failed jobs to retry or delete, a limit on their number, and the rate of retries."""

    ids: list[str]
    filter: FailedFilterOptions
    limit: int | None
    rate: str | None = None

    @classmethod
    def of(
        cls,
        ids: Sequence[str] | None,
        filter: FailedFilterOptions,
        limit: int | None,
        *,
        everything: bool,
        rate: str | None = None,
    ) -> FailedSelection:
        by_filter = bool(filter.values) and not (ids and filter.values.keys() == {"tenant"})
        if [bool(ids), by_filter, everything].count(True) != 1:
            raise typer.BadParameter(
                "name the jobs in one way: by their ids, by at least one filter, or with --all; "
                "only --tenant can be combined with ids"
            )
        if rate is not None:
            per_second("rate", rate)
        return cls(list(dict.fromkeys(ids or ())), filter, limit, rate)

    @property
    def call_arguments(self) -> dict[str, Any]:
        """The keyword arguments for the client, which takes the ids separately.

        Without ids and options, the filter matches every job.
        """
        filters = {} if self.ids else self.filter.values or {"since": EPOCH}
        return filters | {"limit": self.limit}

    async def own_ids(self, queue: OpenQueue) -> list[str]:
        """Return the ids of jobs that belong to the tenant, or all ids if no tenant is named."""
        if self.filter.tenant is None:
            return self.ids
        own = await read_jobs(queue, self.ids, self.filter.tenant)
        return [job for job in self.ids if job in own]

    def describe_number(self, summary: DeadSummary) -> str:
        """Say how many jobs will change, and whether there are more jobs than were counted."""
        if self.limit is not None and self.limit <= summary.number:
            return f"{counted(self.limit, 'job')}, the longest dead of them,"
        return f"{counted(summary.number, 'job')}{'' if summary.is_exact else ' and more'}"

    def describe_rate(self, summary: DeadSummary) -> str:
        """Say at what rate and over how long jobs are retried.

        Return an empty string if no rate is given or no job matches.
        """
        if self.rate is None or not summary.number:
            return ""
        number = min(summary.number, self.limit or summary.number)
        or_more = "" if summary.is_exact or self.limit else " or more"
        duration = format_duration(number / per_second("rate", self.rate))
        return f" at {self.rate}, over {duration}{or_more}"


app = group(
    "dead",
    help="Look at jobs that failed, bring them back or erase them. "
    "`penstock jobs show ID` has all attempts of one.",
)

LimitOption = Annotated[
    int | None,
    typer.Option(min=1, help="How many at most, the longest dead first.", show_default=False),
]
EverythingOption = Annotated[bool, typer.Option("--all", help="All that have failed.")]


@app.command("list", cls=Command)
@examples(
    "penstock dead list --task shop.fail --error ValueError --since 2h",
    "penstock dead list --queue mail --all --json",
)
@expand_options
def list_dead(
    *,
    filter: FailedFilterOptions,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 20,
    after: Annotated[
        str | None,
        typer.Option(metavar="PLACE", help="Those behind this place.", show_default=False),
    ] = None,
    all_pages: Annotated[bool, typer.Option("--all", help="All of them, page by page.")] = False,
    db: DatabaseOptions,
    output: Output,
) -> None:
    """List dead letters, those that failed last first: why, when, after how many attempts."""
    asyncio.run(_list_failed(filter, db, output, limit, after, all_pages=all_pages))


@app.command("summary", cls=Command)
@examples("penstock dead summary --since 1d")
@expand_options
def summary(
    *,
    filter: FailedFilterOptions,
    among: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="How many to look at, the latest first.")
    ] = 10_000,
    db: DatabaseOptions,
    output: Output,
) -> None:
    """Count dead letters by task, reason and type of error, with an example of each."""
    asyncio.run(_summarise(filter, db, output, among))


@app.command("redrive", cls=Command)
@examples(
    "penstock dead redrive 42",
    "penstock dead redrive --task shop.fail --error ValueError --dry-run",
    "penstock dead redrive --queue mail --rate 10/s --yes",
)
@expand_options
def redrive(
    *,
    ids: Ids = None,
    filter: FailedFilterOptions,
    everything: EverythingOption = False,
    rate: Annotated[
        str | None,
        typer.Option(
            metavar="RATE",
            help="How many come back in a time: 10/s, 500/min; all at once, if not given.",
            show_default=False,
        ),
    ] = None,
    limit: LimitOption = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    db: DatabaseOptions,
    output: Output,
) -> None:
    """Run failed jobs again, under their ids and with fresh chances; the longest dead first.

    At a rate they come back scheduled, one after the other, and nobody needs to stay for it. What
    fails after the command began is not caught by it.
    """
    selection = FailedSelection.of(ids, filter, limit, everything=everything, rate=rate)
    _redrive(selection, db, output, dry_run=dry_run, yes=yes)


@app.command("purge", cls=Command)
@examples(
    "penstock dead purge --reason discarded --until 7d --dry-run",
    "penstock dead purge --tenant acme --yes",
)
@expand_options
def purge(
    *,
    ids: Ids = None,
    filter: FailedFilterOptions,
    everything: EverythingOption = False,
    limit: LimitOption = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    db: DatabaseOptions,
    output: Output,
) -> None:
    """Erase failed jobs with all that is kept about them."""
    selection = FailedSelection.of(ids, filter, limit, everything=everything)
    _purge(selection, db, output, dry_run=dry_run, yes=yes)


def _failed_table(jobs: Sequence[Job], width: int) -> RenderableType:
    """Return failed jobs as a table without empty columns."""
    if not jobs:
        return tables.empty_text(NO_FAILED_JOBS)
    now = datetime.now(UTC)
    builder = tables.TableBuilder(width)
    builder.column("id")
    builder.column("task", max_width=max(16, width // 4))
    builder.column("reason", max_width=16)
    builder.column("failed", align_right=True)
    builder.column("tries", align_right=True)
    builder.column("queue", max_width=16, wider_than=ROOMY_WIDTH)
    builder.column(
        "tenant", max_width=20, wider_than=ROOMY_WIDTH, needed=any(job.tenant for job in jobs)
    )
    builder.column(
        "subject", max_width=24, wider_than=ROOMY_WIDTH, needed=any(job.subject for job in jobs)
    )
    builder.column("last error", elastic=True)
    for job in jobs:
        builder.row(
            job.id,
            job.task,
            job.reason or "",
            _age_text(job.finished_at, now),
            str(job.attempt),
            job.queue,
            job.tenant,
            job.subject or "",
            _error_text(*((job.last_error.type, job.last_error.message) if job.last_error else ())),
        )
    return builder.table


def _groups_table(summary: DeadSummary, width: int) -> RenderableType:
    """Return jobs that failed alike as a table with one row per group, the largest group first."""
    if not summary.groups:
        return tables.empty_text(NO_FAILED_JOBS)
    now = datetime.now(UTC)
    builder = tables.TableBuilder(width)
    builder.column("jobs", align_right=True)
    builder.column("task", max_width=max(16, width // 4))
    builder.column("reason", max_width=16, wider_than=60)
    builder.column("first failed", align_right=True, wider_than=80)
    builder.column("last failed", align_right=True)
    builder.column("such as", align_right=True)
    builder.column("last error", elastic=True)
    for failure in summary.groups:
        builder.row(
            f"{failure.number:,}",
            failure.task,
            failure.reason,
            _age_text(failure.first_at, now),
            _age_text(failure.last_at, now),
            failure.example,
            _error_text(failure.error, failure.message),
        )
    return builder.table


def _age_text(moment: datetime | None, now: datetime) -> str:
    return "" if moment is None else format_age((now - moment).total_seconds())


def _error_text(kind: str | None = None, message: str | None = None) -> Text:
    first_line = (message or "").partition("\n")[0]
    return Text(": ".join(filter(None, (kind, first_line))), "red")


async def _list_failed(
    filter: FailedFilterOptions,
    db: DatabaseOptions,
    output: Output,
    limit: int,
    after: str | None,
    *,
    all_pages: bool,
) -> None:
    """Print one page of failed jobs and the cursor of the next page, or print all pages."""
    jobs: list[Job] = []
    async with open_queue_for(db, filter.tenant) as queue:
        while True:
            size = PAGE_SIZE if all_pages else limit
            page = await queue.client.dead_letters(after=after, limit=size, **filter.values)
            after = page.after
            if output.as_json or not all_pages:
                jobs += page.jobs
            elif page.jobs:
                draw(_failed_table(page.jobs, terminal().width))
            if after is None or not all_pages:
                break
    if output.as_json or not all_pages:
        document = {"jobs": jobs, "after": after}
        output.show(document, lambda: _failed_table(jobs, terminal().width))
    if after and not output.as_json:
        say(f"There may be more: --after {after}, or --all.")


async def _summarise(
    filter: FailedFilterOptions, db: DatabaseOptions, output: Output, among: int
) -> None:
    async with open_queue_for(db, filter.tenant) as queue:
        summary = await queue.client.dead_summary(among=among, **filter.values)
    output.show(summary, lambda: _groups_table(summary, terminal().width))
    if not summary.is_exact and not output.as_json:
        say(f"These are the latest {summary.number:,}; there may be more: --among counts further.")


def _redrive(
    selection: FailedSelection, db: DatabaseOptions, output: Output, *, dry_run: bool, yes: bool
) -> None:
    """Retry failed jobs. Ask the user first if a filter selects the jobs."""

    def call(client: Client, *ids: str) -> AsyncIterator[Redriven]:
        return client.redriving(
            *ids, rate=selection.rate, by=current_user(), **selection.call_arguments
        )

    if _is_confirmed("redriven", selection, db, output, dry_run=dry_run, yes=yes):
        _change_and_report("redriven", selection, call, db, output)


def _purge(
    selection: FailedSelection, db: DatabaseOptions, output: Output, *, dry_run: bool, yes: bool
) -> None:
    """Delete failed jobs. Ask the user first if a filter selects the jobs."""

    def call(client: Client, *ids: str) -> AsyncIterator[Purged]:
        return client.purging(*ids, by=current_user(), **selection.call_arguments)

    if _is_confirmed("purged", selection, db, output, dry_run=dry_run, yes=yes):
        _change_and_report("purged", selection, call, db, output)


def _is_confirmed(
    past: str,
    selection: FailedSelection,
    db: DatabaseOptions,
    output: Output,
    *,
    dry_run: bool,
    yes: bool,
) -> bool:
    """Return whether to change the jobs. For a dry run, show the jobs and return False.

    If a filter selects the jobs, ask the user, and raise `CommandError` unless the answer is yes.
    """
    if not dry_run and (selection.ids or yes):
        return True
    if selection.ids:
        _show_dry_run_of_ids(past, asyncio.run(_read_named_jobs(selection, db)), output)
        return False
    summary = asyncio.run(_read_summary(selection, db))
    number, rate = selection.describe_number(summary), selection.describe_rate(summary)
    if dry_run:
        message = f"{number} would be {past}{rate}; nothing was changed."
        _show_dry_run_of_filter(summary, message, output)
        return False
    if summary.number:
        confirm(f"{number} will be {past}{rate}.")
    return True


def _change_and_report(
    past: str,
    selection: FailedSelection,
    call: Callable[..., AsyncIterator[Redriven | Purged]],
    db: DatabaseOptions,
    output: Output,
) -> None:
    changed = asyncio.run(_change_all(past, selection, call, db))
    changed.show(output, describe_rate(selection.rate, changed.due))


async def _change_all(
    past: str,
    selection: FailedSelection,
    call: Callable[..., AsyncIterator[Redriven | Purged]],
    db: DatabaseOptions,
) -> ChangeResult:
    """Change all selected jobs page by page, and show the count so far on stderr."""
    changed = ChangeResult(past)
    async with open_queue_for(db, selection.filter.tenant) as queue:
        ids = await selection.own_ids(queue)
        changed.skipped = {job: MISSING for job in selection.ids if job not in ids}
        if selection.ids and not ids:
            return changed
        with terminal(stderr=True).status("…") as status:
            async for progress in call(queue.client, *ids):
                changed.number = progress.number
                changed.skipped |= progress.left
                if isinstance(progress, Redriven):
                    changed.due, changed.workflows = progress.due, Counter(progress.workflows)
                status.update(f"{counted(progress.number, 'job')} {past} …")
        await changed.find_holders(queue.client)
    return changed


async def _read_named_jobs(selection: FailedSelection, db: DatabaseOptions) -> list[Job]:
    async with open_queue_for(db, selection.filter.tenant) as queue:
        jobs = await read_jobs(queue, selection.ids, selection.filter.tenant)
    return [job for job in jobs.values() if job.state == FAILED][: selection.limit]


async def _read_summary(selection: FailedSelection, db: DatabaseOptions) -> DeadSummary:
    async with open_queue_for(db, selection.filter.tenant) as queue:
        return await queue.client.dead_summary(**selection.filter.values)


def _show_dry_run_of_ids(past: str, jobs: Sequence[Job], output: Output) -> None:
    document = {"dry_run": True, "matched": len(jobs), "more": False, "ids": [j.id for j in jobs]}
    if output.as_json:
        print_json(document)
        return
    draw(_failed_table(jobs, terminal().width))
    draw(f"{counted(len(jobs), 'job')} would be {past}; nothing was changed.")


def _show_dry_run_of_filter(summary: DeadSummary, message: str, output: Output) -> None:
    if output.as_json:
        more = not summary.is_exact
        print_json(
            {"dry_run": True, "matched": summary.number, "more": more, "groups": summary.groups}
        )
        return
    draw(_groups_table(summary, terminal().width))
    draw(message)
