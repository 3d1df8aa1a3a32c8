"""`penstock dead`: jobs that failed, to look at, bring back or erase."""

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
from penstock.cli.bulk import MISSING, Changed, jobs_of, told_of_rate
from penstock.cli.database import Reached, reached_for, user
from penstock.cli.filters import option
from penstock.cli.framework import Command, examples, group, spread
from penstock.cli.options import DryRun, Ids, Where, Yes, confirm, past
from penstock.cli.output import Output, draw, print_json, say, terminal
from penstock.cli.tables import ago, length
from penstock.groups.failed import DeadSummary, Purged, Redriven
from penstock.job import FAILED, Job
from penstock.rate import per_second
from penstock.wording import counted


@dataclass(frozen=True)
class FailedFilter:
    """Failed jobs that agree in all that is given."""

    queue: Annotated[str | None, option("Jobs of this queue.")] = None
    task: Annotated[str | None, option("Jobs of this task, by its name.")] = None
    tenant: Annotated[str | None, option("Jobs of this tenant.")] = None
    subject: Annotated[str | None, option("Jobs about this, such as document:42.")] = None
    tag: Annotated[str | None, option("Jobs with this tag.")] = None
    reason: Annotated[
        str | None,
        option("Jobs given up for this reason: exhausted, discarded, poison, worker_lost, …"),
    ] = None
    error: Annotated[
        str | None, option("Jobs whose last error is of this type, such as ValueError.")
    ] = None
    batch: Annotated[str | None, option("Jobs of this batch.", metavar="ID")] = None
    since: Annotated[
        datetime | None,
        option("Jobs that failed since then: 2h, 7d or a time.", parser=past, metavar="WHEN"),
    ] = None
    until: Annotated[
        datetime | None,
        option("Jobs that failed before then: 2h, 7d or a time.", parser=past, metavar="WHEN"),
    ] = None

    @property
    def given(self) -> dict[str, Any]:
        """What is given, as the client takes it."""
        all_of_them = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in all_of_them.items() if value is not None}


BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which dead letters are to change, and how."""

    ids: list[str]
    letters: FailedFilter
    limit: int | None
    rate: str | None = None

    @classmethod
    def of(
        cls,
        ids: Sequence[str] | None,
        letters: FailedFilter,
        limit: int | None,
        *,
        everything: bool,
        rate: str | None = None,
    ) -> Wanted:
        by_filter = bool(letters.given) and not (ids and letters.given.keys() == {"tenant"})
        if [bool(ids), by_filter, everything].count(True) != 1:
            raise typer.BadParameter(
                "name the jobs by their ids, or by at least one filter, or say --all; only one of "
                "them, except that --tenant goes with ids"
            )
        if rate is not None:
            per_second("rate", rate)
        return cls(list(dict.fromkeys(ids or ())), letters, limit, rate)

    @property
    def options(self) -> dict[str, Any]:
        """What the client is asked for beside the ids: a filter for all, if none is given."""
        which = {} if self.ids else self.letters.given or {"since": BEGINNING}
        return which | {"limit": self.limit}

    async def own_ids(self, queue: Reached) -> list[str]:
        """Those of the ids that are the tenant's, if one is named."""
        if self.letters.tenant is None:
            return self.ids
        own = await jobs_of(queue, self.ids, self.letters.tenant)
        return [job for job in self.ids if job in own]

    def number_of(self, found: DeadSummary) -> str:
        """How many it is about, as far as they were counted."""
        if self.limit is not None and self.limit <= found.number:
            return f"{counted(self.limit, 'job')}, the longest dead of them,"
        return f"{counted(found.number, 'job')}{'' if found.is_exact else ' and more'}"

    def pace_of(self, found: DeadSummary) -> str:
        """How fast they come back, and over how long; nothing if all come at once."""
        if self.rate is None or not found.number:
            return ""
        number = min(found.number, self.limit or found.number)
        least = "" if found.is_exact or self.limit else " or more"
        return f" at {self.rate}, over {length(number / per_second('rate', self.rate))}{least}"


app = group(
    "dead",
    help="Look at jobs that failed, bring them back or erase them. "
    "`penstock jobs show ID` has all attempts of one.",
)

Limit = Annotated[
    int | None,
    typer.Option(min=1, help="How many at most, the longest dead first.", show_default=False),
]
Everything = Annotated[bool, typer.Option("--all", help="All that have failed.")]


@app.command("list", cls=Command)
@examples(
    "penstock dead list --task shop.fail --error ValueError --since 2h",
    "penstock dead list --queue mail --all --json",
)
@spread
def list_dead(
    *,
    letters: FailedFilter,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 20,
    after: Annotated[
        str | None,
        typer.Option(metavar="PLACE", help="Those behind this place.", show_default=False),
    ] = None,
    all_pages: Annotated[bool, typer.Option("--all", help="All of them, page by page.")] = False,
    where: Where,
    output: Output,
) -> None:
    """List dead letters, those that failed last first: why, when, after how many attempts."""
    asyncio.run(_list_failed(letters, where, output, limit, after, all_pages=all_pages))


@app.command("summary", cls=Command)
@examples("penstock dead summary --since 1d")
@spread
def summary(
    *,
    letters: FailedFilter,
    among: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="How many to look at, the latest first.")
    ] = 10_000,
    where: Where,
    output: Output,
) -> None:
    """Count dead letters by task, reason and type of error, with an example of each."""
    asyncio.run(_summarise(letters, where, output, among))


@app.command("redrive", cls=Command)
@examples(
    "penstock dead redrive 42",
    "penstock dead redrive --task shop.fail --error ValueError --dry-run",
    "penstock dead redrive --queue mail --rate 10/s --yes",
)
@spread
def redrive(
    *,
    ids: Ids = None,
    letters: FailedFilter,
    everything: Everything = False,
    rate: Annotated[
        str | None,
        typer.Option(
            metavar="RATE",
            help="How many come back in a time: 10/s, 500/min; all at once, if not given.",
            show_default=False,
        ),
    ] = None,
    limit: Limit = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    where: Where,
    output: Output,
) -> None:
    """Run failed jobs again, under their ids and with fresh chances; the longest dead first.

    At a rate they come back scheduled, one after the other, and nobody needs to stay for it. What
    fails after the command began is not caught by it.
    """
    wanted = Wanted.of(ids, letters, limit, everything=everything, rate=rate)
    _redrive(wanted, where, output, dry_run=dry_run, yes=yes)


@app.command("purge", cls=Command)
@examples(
    "penstock dead purge --reason discarded --until 7d --dry-run",
    "penstock dead purge --tenant acme --yes",
)
@spread
def purge(
    *,
    ids: Ids = None,
    letters: FailedFilter,
    everything: Everything = False,
    limit: Limit = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    where: Where,
    output: Output,
) -> None:
    """Erase failed jobs with all that is kept about them."""
    wanted = Wanted.of(ids, letters, limit, everything=everything)
    _purge(wanted, where, output, dry_run=dry_run, yes=yes)


NONE = "There are no such dead letters."
ROOMY = 120


def _failed_table(jobs: Sequence[Job], width: int) -> RenderableType:
    """Failed jobs as a table; columns that would be empty are left out."""
    if not jobs:
        return tables.nothing(NONE)
    now = datetime.now(UTC)
    sheet = tables.Sheet(width)
    sheet.column("id")
    sheet.column("task", most=max(16, width // 4))
    sheet.column("reason", most=16)
    sheet.column("failed", right=True)
    sheet.column("tries", right=True)
    sheet.column("queue", most=16, above=ROOMY)
    sheet.column("tenant", most=20, above=ROOMY, needed=any(job.tenant for job in jobs))
    sheet.column("subject", most=24, above=ROOMY, needed=any(job.subject for job in jobs))
    sheet.column("last error", elastic=True)
    for job in jobs:
        sheet.row(
            job.id,
            job.task,
            job.reason or "",
            _since(job.finished_at, now),
            str(job.attempt),
            job.queue,
            job.tenant,
            job.subject or "",
            _error(*((job.last_error.type, job.last_error.message) if job.last_error else ())),
        )
    return sheet.table


def _groups_table(summary: DeadSummary, width: int) -> RenderableType:
    """Those that failed alike as a line, the most first."""
    if not summary.groups:
        return tables.nothing(NONE)
    now = datetime.now(UTC)
    sheet = tables.Sheet(width)
    sheet.column("jobs", right=True)
    sheet.column("task", most=max(16, width // 4))
    sheet.column("reason", most=16, above=60)
    sheet.column("first failed", right=True, above=80)
    sheet.column("last failed", right=True)
    sheet.column("such as", right=True)
    sheet.column("last error", elastic=True)
    for failure in summary.groups:
        sheet.row(
            f"{failure.number:,}",
            failure.task,
            failure.reason,
            _since(failure.first_at, now),
            _since(failure.last_at, now),
            failure.example,
            _error(failure.error, failure.message),
        )
    return sheet.table


def _since(moment: datetime | None, now: datetime) -> str:
    return "" if moment is None else ago((now - moment).total_seconds())


def _error(kind: str | None = None, message: str | None = None) -> Text:
    said = (message or "").partition("\n")[0]
    return Text(": ".join(filter(None, (kind, said))), "red")


PAGE = 500


async def _list_failed(
    letters: FailedFilter,
    where: Where,
    output: Output,
    limit: int,
    after: str | None,
    *,
    all_pages: bool,
) -> None:
    """One page, and how to come to the next; or all of them, one table after the other."""
    found: list[Job] = []
    async with reached_for(where, letters.tenant) as queue:
        while True:
            size = PAGE if all_pages else limit
            page = await queue.client.dead_letters(after=after, limit=size, **letters.given)
            after = page.after
            if output.as_json or not all_pages:
                found += page.jobs
            elif page.jobs:
                draw(_failed_table(page.jobs, terminal().width))
            if after is None or not all_pages:
                break
    if output.as_json or not all_pages:
        document = {"jobs": found, "after": after}
        output.show(document, lambda: _failed_table(found, terminal().width))
    if after and not output.as_json:
        say(f"There may be more: --after {after}, or --all.")


async def _summarise(letters: FailedFilter, where: Where, output: Output, among: int) -> None:
    async with reached_for(where, letters.tenant) as queue:
        found = await queue.client.dead_summary(among=among, **letters.given)
    output.show(found, lambda: _groups_table(found, terminal().width))
    if not found.is_exact and not output.as_json:
        say(f"These are the latest {found.number:,}; there may be more: --among counts further.")


def _redrive(wanted: Wanted, where: Where, output: Output, *, dry_run: bool, yes: bool) -> None:
    """Bring dead letters back; those that a filter finds only after a question."""

    def call(client: Client, *ids: str) -> AsyncIterator[Redriven]:
        return client.redriving(*ids, rate=wanted.rate, by=user(), **wanted.options)

    if _is_meant("redriven", wanted, where, output, dry_run=dry_run, yes=yes):
        _change("redriven", wanted, call, where, output)


def _purge(wanted: Wanted, where: Where, output: Output, *, dry_run: bool, yes: bool) -> None:
    """Erase dead letters; those that a filter finds only after a question."""

    def call(client: Client, *ids: str) -> AsyncIterator[Purged]:
        return client.purging(*ids, by=user(), **wanted.options)

    if _is_meant("purged", wanted, where, output, dry_run=dry_run, yes=yes):
        _change("purged", wanted, call, where, output)


def _is_meant(
    past: str, wanted: Wanted, where: Where, output: Output, *, dry_run: bool, yes: bool
) -> bool:
    """Whether to go on: not after a dry run, and with a filter only after a yes."""
    if not dry_run and (wanted.ids or yes):
        return True
    if wanted.ids:
        _show_named(past, asyncio.run(_named(wanted, where)), output)
        return False
    found = asyncio.run(_summary(wanted, where))
    number, pace = wanted.number_of(found), wanted.pace_of(found)
    if dry_run:
        told = f"{number} would be {past}{pace}; nothing was changed."
        _show_groups(found, told, output)
        return False
    if found.number:
        confirm(f"{number} will be {past}{pace}.")
    return True


def _change(
    past: str,
    wanted: Wanted,
    call: Callable[..., AsyncIterator[Redriven | Purged]],
    where: Where,
    output: Output,
) -> None:
    changed = asyncio.run(_changed(past, wanted, call, where))
    changed.show(output, told_of_rate(wanted.rate, changed.due))


async def _changed(
    past: str, wanted: Wanted, call: Callable[..., AsyncIterator[Redriven | Purged]], where: Where
) -> Changed:
    """All of them, a page at a time, with a line on stderr that counts."""
    changed = Changed(past)
    async with reached_for(where, wanted.letters.tenant) as queue:
        own = await wanted.own_ids(queue)
        changed.left = {job: MISSING for job in wanted.ids if job not in own}
        if wanted.ids and not own:
            return changed
        with terminal(stderr=True).status("…") as status:
            async for told in call(queue.client, *own):
                changed.number = told.number
                changed.left |= told.left
                if isinstance(told, Redriven):
                    changed.due, changed.workflows = told.due, Counter(told.workflows)
                status.update(f"{counted(told.number, 'job')} {past} …")
        await changed.find_holders(queue.client)
    return changed


async def _named(wanted: Wanted, where: Where) -> list[Job]:
    async with reached_for(where, wanted.letters.tenant) as queue:
        jobs = await jobs_of(queue, wanted.ids, wanted.letters.tenant)
    return [job for job in jobs.values() if job.state == FAILED][: wanted.limit]


async def _summary(wanted: Wanted, where: Where) -> DeadSummary:
    async with reached_for(where, wanted.letters.tenant) as queue:
        return await queue.client.dead_summary(**wanted.letters.given)


def _show_named(past: str, jobs: Sequence[Job], output: Output) -> None:
    document = {"dry_run": True, "matched": len(jobs), "more": False, "ids": [j.id for j in jobs]}
    if output.as_json:
        print_json(document)
        return
    draw(_failed_table(jobs, terminal().width))
    draw(f"{counted(len(jobs), 'job')} would be {past}; nothing was changed.")


def _show_groups(found: DeadSummary, told: str, output: Output) -> None:
    if output.as_json:
        more = not found.is_exact
        print_json({"dry_run": True, "matched": found.number, "more": more, "groups": found.groups})
        return
    draw(_groups_table(found, terminal().width))
    draw(told)
