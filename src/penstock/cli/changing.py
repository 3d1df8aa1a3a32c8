"""What `penstock jobs retry`, `unblock`, `cancel` and `delete` do: change jobs, page by page."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import typer

from penstock.cli.confirm import confirm
from penstock.cli.exits import Exit
from penstock.cli.filters import PAGE, Filter, StateName
from penstock.cli.given import user
from penstock.cli.opening import Reached, reached_for
from penstock.cli.output import Output, draw, print_json, terminal
from penstock.cli.screens.jobs import jobs_table
from penstock.cli.where import Where
from penstock.errors import JobNotFound
from penstock.job import Job
from penstock.store import key_of
from penstock.store.unique import Uniques
from penstock.store.workflows import Workflows
from penstock.wording import counted

SHOWN = 20
MISSING = "missing"
HELD = "held"


@dataclass(frozen=True, slots=True)
class Verb:
    """What to do with jobs, and what the database answers when it was done."""

    past: str
    answers: Set[str]
    call: Callable[[Reached, Sequence[int]], Awaitable[dict[int, str]]]


# In a workflow a job comes back blocked while those live that it waits for.
RETRY = Verb("retried", {"ready", "blocked"}, lambda on, keys: on.app.store.retry(on.on, keys))
CANCEL = Verb(
    "cancelled", {"cancelled"}, lambda on, keys: on.app.store.cancel(on.on, keys, "requested")
)
DELETE = Verb("deleted", {"deleted"}, lambda on, keys: on.app.store.delete(on.on, keys))
UNBLOCK = Verb(
    "unblocked", {"ready"}, lambda on, keys: Workflows(on.app.store).unblock(on.on, keys, user())
)


@dataclass(slots=True)
class Changed:
    """What became of the jobs: how many were changed, and why the others were not."""

    verb: Verb
    named: bool
    answers: Counter[str] = field(default_factory=Counter)
    jobs: dict[str, str] = field(default_factory=dict)
    holders: dict[str, str] = field(default_factory=dict)

    def add(self, answers: dict[str, str], holders: dict[str, str]) -> None:
        self.answers.update(answers.values())
        if len(self.holders) < SHOWN:
            self.holders |= holders
        if self.named:
            self.jobs |= answers

    @property
    def number(self) -> int:
        return sum(self.answers[each] for each in self.verb.answers)

    @property
    def left(self) -> dict[str, int]:
        return {why: n for why, n in self.answers.items() if why not in self.verb.answers and n}

    @property
    def exit(self) -> Exit:
        return exit_for(self.left)

    def as_document(self) -> dict[str, Any]:
        told: dict[str, Any] = {"changed": self.number, "left": self.left}
        if self.holders:
            told["held_by"] = self.holders
        return told | ({"jobs": self.jobs} if self.named else {})

    def __str__(self) -> str:
        return sentence(self.number, self.verb.past, self.left) + told_of(self.holders)


def exit_for(left: Mapping[str, int]) -> Exit:
    """The exit code, if so many jobs were left for each reason."""
    if left.keys() - {MISSING}:
        return Exit.CONFLICT
    return Exit.NO if left else Exit.OK


def sentence(number: int, past: str, left: Mapping[str, int]) -> str:
    """How many were changed, and how many were left for each reason."""
    told = f"{counted(number, 'job')} {_were(number)} {past}."
    for why, others in sorted(left.items()):
        told += f" {counted(others, 'job')} {_were(others)} left: {WHY.get(why, why)}."
    return told


async def holders_of(queue: Reached, answers: Mapping[str, str]) -> dict[str, str]:
    """Of jobs that were left since another holds their unique key: which one; of the first few."""
    held = [job for job, answer in answers.items() if answer == HELD][:SHOWN]
    if not held:
        return {}
    found = await Uniques(queue.app.store).holders(queue.on, list(_keys(held).values()))
    return {job: holder.job for job, holder in found.items()}


def told_of(holders: Mapping[str, str]) -> str:
    """Whose the unique keys of jobs are, a sentence for each."""
    return "".join(f" That of job {job} is job {of}'s." for job, of in holders.items())


WHY = {
    MISSING: "there is none with this id",
    HELD: "the unique key belongs to another job now",
    "running": "running",
    "scheduled": "scheduled",
    "completed": "completed already",
    "failed": "failed already",
    "cancelled": "cancelled already",
}


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

    async def pages(self, queue: Reached) -> AsyncIterator[tuple[list[str], bool]]:
        """Their ids, a page at a time, and whether there is a next one."""
        for start in range(0, len(self.ids), PAGE):
            yield self.ids[start : start + PAGE], start + PAGE < len(self.ids)
        if not self.ids:
            async for jobs, after in self.filter.pages(queue, states=self.states):
                yield [job.id for job in jobs], after is not None


def change(
    verb: Verb, which: Which, where: Where, output: Output, *, dry_run: bool, yes: bool
) -> None:
    """Change jobs; those that a filter finds only after a question."""
    if dry_run or not (which.ids or yes):
        found, more = asyncio.run(_look(which, where))
        number = f"{counted(len(found), 'job')}{' and more' if more else ''}"
        if dry_run:
            _show_dry_run(
                found, more, f"{number} would be {verb.past}; nothing was changed.", output
            )
            return
        if found:
            confirm(f"{number} will be {verb.past}.")
    changed = asyncio.run(_change(verb, which, where))
    output.show(changed.as_document(), lambda: str(changed))
    raise typer.Exit(changed.exit)


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
    changed = Changed(verb, named=bool(which.ids))
    tenant = which.filter.tenant
    async with reached_for(where, tenant) as queue:
        with terminal(stderr=True).status("…") as status:
            async for ids, _ in which.pages(queue):
                answers = await _answers(verb, queue, ids, tenant if which.ids else None)
                changed.add(answers, await holders_of(queue, answers))
                status.update(f"{counted(changed.number, 'job')} {verb.past} …")
    return changed


async def _answers(
    verb: Verb, queue: Reached, ids: Sequence[str], tenant: str | None
) -> dict[str, str]:
    """What became of each; what is no job of the tenant's, if one is named, is not there."""
    keys = _keys(ids if tenant is None else list(await jobs_of(queue, ids, tenant)))
    answers = await verb.call(queue, list(keys.values()))
    return {job: answers[keys[job]] if job in keys else MISSING for job in ids}


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


def _were(number: int) -> str:
    return "was" if number == 1 else "were"
