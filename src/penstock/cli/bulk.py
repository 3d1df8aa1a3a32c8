"""Change jobs, page by page, and say how many were changed and why others were left."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import typer

from penstock.app.client import Client
from penstock.cli.database import Reached, reached_for, user
from penstock.cli.filters import PAGE, Filter, StateName
from penstock.cli.framework import Exit
from penstock.cli.options import Where, confirm
from penstock.cli.output import Output, draw, print_json, terminal
from penstock.cli.screens.jobs import jobs_table
from penstock.cli.tables import at
from penstock.errors import JobNotFound
from penstock.job import COMPLETED, Job
from penstock.store import key_of
from penstock.store.workflows import Workflows
from penstock.wording import counted, listed

MISSING = "missing"
HELD = "held"
NAMED = 20

WHY = {
    MISSING: "there is none with this id",
    HELD: "the unique key belongs to another job now",
    "running": "running",
    "scheduled": "scheduled",
    "completed": "completed already",
    "failed": "failed already",
    "cancelled": "cancelled already",
}


@dataclass(slots=True)
class Changed:
    """The answer of every command that retries, cancels or erases, for people and for programs.

    `left` says of each job that was not changed why, `holders` which one has its unique key, and
    `due` when the last of those comes back that come back at a rate. `workflows` are those of which
    so many steps came back without what was cancelled because of them.
    """

    past: str
    number: int = 0
    left: dict[str, str] = field(default_factory=dict)
    holders: dict[str, str] = field(default_factory=dict)
    due: datetime | None = None
    workflows: Counter[str] = field(default_factory=Counter)

    async def find_holders(self, client: Client) -> None:
        """Ask who has the unique keys that other jobs could not come back for."""
        held = [job for job, why in self.left.items() if why == HELD and job not in self.holders]
        if held:
            self.holders |= await client.unique_holders(held)

    @property
    def exit(self) -> Exit:
        if set(self.left.values()) - {MISSING}:
            return Exit.CONFLICT
        return Exit.NO if self.left else Exit.OK

    def show(self, output: Output, more: str = "") -> None:
        """Tell it, and end the command with the exit code that it means."""
        output.show(self.as_document(), lambda: str(self) + more)
        raise typer.Exit(self.exit)

    def as_document(self) -> dict[str, Any]:
        left = [{"id": job, "why": why} | self._holder(job) for job, why in self.left.items()]
        document: dict[str, Any] = {"changed": self.number, "left": left}
        more = {"due": self.due, "workflows": self.workflows}
        return document | {name: value for name, value in more.items() if value}

    def _holder(self, job: str) -> dict[str, str]:
        return {"held_by": self.holders[job]} if job in self.holders else {}

    def __str__(self) -> str:
        told = sentence(self.number, self.past, Counter(self.left.values()))
        first = list(self.holders.items())[:NAMED]
        told += "".join(f" That of job {job} is job {of}'s." for job, of in first)
        return told + told_of_steps(self.workflows)


def sentence(number: int, past: str, left: Mapping[str, int]) -> str:
    """How many were changed, and how many were left for each reason."""
    told = f"{counted(number, 'job')} {_were(number)} {past}."
    for why, others in sorted(left.items()):
        told += f" {counted(others, 'job')} {_were(others)} left: {WHY.get(why, why)}."
    return told


def told_of_steps(workflows: Mapping[str, int]) -> str:
    """How to bring back what is behind steps that came back alone, as a sentence more."""
    if not workflows:
        return ""
    number, names = sum(workflows.values()), sorted(workflows, key=int)
    steps = "is a step of" if number == 1 else "are steps of"
    flows = "workflow" if len(names) == 1 else "workflows"
    some = ", ".join(names[:NAMED]) + (" and others" if len(names) > NAMED else "")
    return (
        f" {number:,} of them {steps} {flows} {some}: `penstock workflows retry {names[0]}` also "
        f"brings back what was cancelled because of {'it' if number == 1 else 'them'}."
    )


def told_of_rate(rate: str | None, due: datetime | None) -> str:
    """When the last of those is due that come back at a rate, as a sentence more."""
    if rate is None or due is None:
        return ""
    return f" At {rate} the last of them is due at {at(due)} UTC."


def _were(number: int) -> str:
    return "was" if number == 1 else "were"


SHOWN = 20


@dataclass(frozen=True, slots=True)
class Verb:
    """What to do with jobs, and what the client answers when it was done."""

    past: str
    answers: Set[str]
    call: Callable[[Client, Sequence[str]], Awaitable[dict[str, str]]]


# In a workflow a job comes back blocked while those live that it waits for.
RETRY = Verb("retried", {"ready", "blocked"}, Client.retry_many)
# One that completes while people are asked, or while others are changed, does not run again.
RETRY_UNFINISHED = Verb(
    RETRY.past, RETRY.answers, lambda client, jobs: client.retry_many(jobs, completed=False)
)
CANCEL = Verb("cancelled", {"cancelled"}, Client.cancel_many)
DELETE = Verb("deleted", {"deleted"}, Client.delete_many)
UNBLOCK = Verb("unblocked", {"ready"}, lambda client, jobs: client.unblock_many(jobs, by=user()))


@dataclass(frozen=True, slots=True)
class Which:
    """The jobs that are meant: by their ids, or by a filter and the states it is for."""

    ids: list[str]
    filter: Filter
    states: list[StateName]

    @classmethod
    def of(cls, ids: Sequence[str] | None, filter: Filter, states: list[StateName]) -> Which:
        if bool(ids) == (filter.is_given and not (ids and filter.is_tenant_alone)):
            raise typer.BadParameter(
                "name the jobs by their ids, or by at least one filter; not by both, except that "
                "--tenant goes with ids"
            )
        return cls(list(dict.fromkeys(ids or ())), filter, states)

    @property
    def meant(self) -> list[StateName]:
        """The states that a filter is about."""
        return self.filter.state or self.states

    async def pages(self, queue: Reached) -> AsyncIterator[tuple[list[str], bool]]:
        """Their ids, a page at a time, and whether there is a next one."""
        for start in range(0, len(self.ids), PAGE):
            yield self.ids[start : start + PAGE], start + PAGE < len(self.ids)
        if not self.ids:
            async for page in self.filter.ids(queue, self.states):
                yield page


def change(
    verb: Verb, which: Which, where: Where, output: Output, *, dry_run: bool, yes: bool
) -> None:
    """Change jobs; those that a filter finds, and completed ones to run again, after a question."""
    if dry_run or not (which.ids or yes):
        found, more = asyncio.run(_look(which, where))
        number = f"{counted(len(found), 'job')}{' and more' if more else ''}"
        if dry_run:
            _show_dry_run(
                found, more, f"{number} would be {verb.past}; nothing was changed.", output
            )
            return
        if found:
            confirm(f"{number} will be {verb.past}.{_rerun(verb, found)}")
    elif verb is RETRY and not yes:
        completed = asyncio.run(_completed(which, where))
        if completed:
            confirm(_rerun(verb, completed).strip())
        else:
            verb = RETRY_UNFINISHED
    if verb is RETRY and not which.ids and StateName.completed not in which.meant:
        verb = RETRY_UNFINISHED
    asyncio.run(_change(verb, which, where)).show(output)


def _rerun(verb: Verb, jobs: Sequence[Job]) -> str:
    """A sentence about the completed ones among jobs that are to be retried, if there are any."""
    completed = [f"{job.id} ({job.task})" for job in jobs if job.state == COMPLETED]
    if verb is not RETRY or not completed:
        return ""
    number = f"{counted(len(completed), 'job')} {'has' if len(completed) == 1 else 'have'}"
    return f" {number} completed, and will run again: {listed(completed)}."


async def _completed(which: Which, where: Where) -> list[Job]:
    """Those of the named jobs that have completed."""
    completed: list[Job] = []
    async with reached_for(where, which.filter.tenant) as queue:
        async for ids, _ in which.pages(queue):
            jobs = (await jobs_of(queue, ids, which.filter.tenant)).values()
            completed += [job for job in jobs if job.state == COMPLETED]
    return completed


async def _look(which: Which, where: Where) -> tuple[list[Job], bool]:
    """The first page of them."""
    async with reached_for(where, which.filter.tenant) as queue:
        ids, more = await anext(which.pages(queue))
        jobs = await jobs_of(queue, ids, which.filter.tenant)
    return [jobs[job] for job in ids if job in jobs], more


async def jobs_of(queue: Reached, ids: Sequence[str], tenant: str | None) -> dict[str, Job]:
    """The jobs by their ids; of a tenant, if one is named."""
    found = await queue.app.store.get(queue.on, list(_keys(ids).values()))
    return {job.id: job for job in found if tenant is None or job.tenant == tenant}


async def _change(verb: Verb, which: Which, where: Where) -> Changed:
    """All of them, a page at a time, with a line on stderr that counts."""
    changed = Changed(verb.past)
    tenant = which.filter.tenant
    async with reached_for(where, tenant) as queue:
        workflows = Workflows(queue.app.store)
        with terminal(stderr=True).status("…") as status:
            async for ids, _ in which.pages(queue):
                answers = await _answers(verb, queue, ids, tenant if which.ids else None)
                left = {job: why for job, why in answers.items() if why not in verb.answers}
                changed.number += len(answers) - len(left)
                changed.left |= left
                if verb in (RETRY, RETRY_UNFINISHED):
                    back = [key for job, key in _keys(list(answers)).items() if job not in left]
                    changed.workflows += await workflows.count_cancelled_branches(queue.on, back)
                status.update(f"{counted(changed.number, 'job')} {verb.past} …")
        await changed.find_holders(queue.client)
    return changed


async def _answers(
    verb: Verb, queue: Reached, ids: Sequence[str], tenant: str | None
) -> dict[str, str]:
    """What became of each; what is no job of the tenant's, if one is named, is not there."""
    own = ids if tenant is None else list(await jobs_of(queue, ids, tenant))
    return dict.fromkeys(ids, MISSING) | await verb.call(queue.client, own)


def _keys(ids: Sequence[str]) -> dict[str, int]:
    """The numbers behind ids; what cannot be one has none."""
    keys = {}
    for job in ids:
        with suppress(JobNotFound):
            keys[job] = key_of(job)
    return keys


def _show_dry_run(jobs: Sequence[Job], more: bool, told: str, output: Output) -> None:
    if output.as_json:
        ids = [job.id for job in jobs]
        print_json({"dry_run": True, "matched": len(ids), "more": more, "ids": ids})
        return
    draw(jobs_table(jobs[:SHOWN], terminal().width))
    draw(told)
