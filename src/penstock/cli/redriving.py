"""What `penstock dead` does: look at dead letters, bring them back, or erase them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

import msgspec
import typer

from penstock.cli.changing import MISSING, exit_for, holders_of, jobs_of, sentence, told_of
from penstock.cli.confirm import confirm
from penstock.cli.given import user
from penstock.cli.letters import Letters
from penstock.cli.opening import Reached, reached_for
from penstock.cli.output import Output, draw, print_json, say, terminal
from penstock.cli.screens.dead import dead_table, groups_table
from penstock.cli.where import Where
from penstock.cli.words import at, length
from penstock.client import Client, DeadSummary, Purged, Redriven
from penstock.job import FAILED, Job
from penstock.rate import per_second
from penstock.wording import counted

PAGE = 500
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
Told: TypeAlias = Redriven | Purged


async def list_letters(
    letters: Letters,
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
                draw(dead_table(page.jobs, terminal().width))
            if after is None or not all_pages:
                break
    if output.as_json or not all_pages:
        document = {"jobs": found, "after": after}
        output.show(document, lambda: dead_table(found, terminal().width))
    if after and not output.as_json:
        say(f"There may be more: --after {after}, or --all.")


async def summarise(letters: Letters, where: Where, output: Output, among: int) -> None:
    async with reached_for(where, letters.tenant) as queue:
        found = await queue.client.dead_summary(among=among, **letters.given)
    output.show(found, lambda: groups_table(found, terminal().width))
    if not found.is_exact and not output.as_json:
        say(f"These are the latest {found.number:,}; there may be more: --among counts further.")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which dead letters are to change, and how."""

    ids: list[str]
    letters: Letters
    limit: int | None
    rate: str | None = None

    @classmethod
    def of(
        cls,
        ids: Sequence[str] | None,
        letters: Letters,
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


def redrive(wanted: Wanted, where: Where, output: Output, *, dry_run: bool, yes: bool) -> None:
    """Bring dead letters back; those that a filter finds only after a question."""

    def call(client: Client, *ids: str) -> AsyncIterator[Redriven]:
        return client.redriving(*ids, rate=wanted.rate, by=user(), **wanted.options)

    if _is_meant("redriven", wanted, where, output, dry_run=dry_run, yes=yes):
        _change("redriven", wanted, call, where, output)


def purge(wanted: Wanted, where: Where, output: Output, *, dry_run: bool, yes: bool) -> None:
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
    number, pace = _number(found, wanted), _pace(found, wanted)
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
    call: Callable[..., AsyncIterator[Told]],
    where: Where,
    output: Output,
) -> None:
    told, holders = asyncio.run(_changed(past, wanted, call, where))
    left = dict(Counter(told.left.values()))
    document = {"changed": told.number, "left": left, "jobs": told.left}
    if holders:
        document["held_by"] = holders
    said = sentence(told.number, past, left) + told_of(holders)
    if isinstance(told, Redriven):
        document["due"] = told.due
        if wanted.rate is not None and told.due is not None:
            said += f" At {wanted.rate} the last of them is due at {at(told.due)} UTC."
    output.show(document, lambda: said)
    raise typer.Exit(exit_for(left))


async def _changed(
    past: str, wanted: Wanted, call: Callable[..., AsyncIterator[Told]], where: Where
) -> tuple[Told, dict[str, str]]:
    """All of them, a page at a time, with a line on stderr that counts."""
    told: Told = Redriven()
    async with reached_for(where, wanted.letters.tenant) as queue:
        own = await wanted.own_ids(queue)
        if wanted.ids and not own:
            return Redriven(left=dict.fromkeys(wanted.ids, MISSING)), {}
        with terminal(stderr=True).status("…") as status:
            async for told in call(queue.client, *own):
                status.update(f"{counted(told.number, 'job')} {past} …")
        holders = await holders_of(queue, told.left)
    others = {job: MISSING for job in wanted.ids if job not in own}
    return msgspec.structs.replace(told, left=told.left | others), holders


async def _named(wanted: Wanted, where: Where) -> list[Job]:
    async with reached_for(where, wanted.letters.tenant) as queue:
        jobs = await jobs_of(queue, wanted.ids, wanted.letters.tenant)
    return [job for job in jobs.values() if job.state == FAILED][: wanted.limit]


async def _summary(wanted: Wanted, where: Where) -> DeadSummary:
    async with reached_for(where, wanted.letters.tenant) as queue:
        return await queue.client.dead_summary(**wanted.letters.given)


def _number(found: DeadSummary, wanted: Wanted) -> str:
    """How many it is about, as far as they were counted."""
    if wanted.limit is not None and wanted.limit <= found.number:
        return f"{counted(wanted.limit, 'job')}, the longest dead of them,"
    return f"{counted(found.number, 'job')}{'' if found.is_exact else ' and more'}"


def _pace(found: DeadSummary, wanted: Wanted) -> str:
    if wanted.rate is None or not found.number:
        return ""
    number = min(found.number, wanted.limit or found.number)
    least = "" if found.is_exact or wanted.limit else " or more"
    return f" at {wanted.rate}, over {length(number / per_second('rate', wanted.rate))}{least}"


def _show_named(past: str, jobs: Sequence[Job], output: Output) -> None:
    document = {"dry_run": True, "matched": len(jobs), "more": False, "ids": [j.id for j in jobs]}
    if output.as_json:
        print_json(document)
        return
    draw(dead_table(jobs, terminal().width))
    draw(f"{counted(len(jobs), 'job')} would be {past}; nothing was changed.")


def _show_groups(found: DeadSummary, told: str, output: Output) -> None:
    if output.as_json:
        more = not found.is_exact
        print_json({"dry_run": True, "matched": found.number, "more": more, "groups": found.groups})
        return
    draw(groups_table(found, terminal().width))
    draw(told)
