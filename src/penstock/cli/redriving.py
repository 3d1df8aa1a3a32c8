"""What `penstock dead` does: look at dead letters, bring them back, or erase them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence

from penstock.app.client import Client
from penstock.cli.changed import MISSING, Changed, told_of_rate
from penstock.cli.changing import jobs_of
from penstock.cli.confirm import confirm
from penstock.cli.given import user
from penstock.cli.letters import Letters
from penstock.cli.opening import reached_for
from penstock.cli.output import Output, draw, print_json, say, terminal
from penstock.cli.screens.dead import dead_table, groups_table
from penstock.cli.wanted import Wanted
from penstock.cli.where import Where
from penstock.groups.failed import DeadSummary, Purged, Redriven
from penstock.job import FAILED, Job
from penstock.wording import counted

PAGE = 500


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
    draw(dead_table(jobs, terminal().width))
    draw(f"{counted(len(jobs), 'job')} would be {past}; nothing was changed.")


def _show_groups(found: DeadSummary, told: str, output: Output) -> None:
    if output.as_json:
        more = not found.is_exact
        print_json({"dry_run": True, "matched": found.number, "more": more, "groups": found.groups})
        return
    draw(groups_table(found, terminal().width))
    draw(told)
