"""What `penstock jobs retry`, `cancel` and `delete` do: change some jobs, in bounded batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import typer

from penstock.cli.confirm import confirm
from penstock.cli.exits import Exit
from penstock.cli.filters import PAGE, Filter, StateName
from penstock.cli.opening import Reached, reached
from penstock.cli.output import Output, draw, terminal
from penstock.cli.screens.jobs import jobs_table
from penstock.cli.where import Where
from penstock.cli.words import counted
from penstock.errors import JobNotFound
from penstock.job import Job
from penstock.store import key_of

SHOWN = 20
MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Verb:
    """What to do with jobs, and what the database answers when it was done."""

    past: str
    answer: str
    call: Callable[[Reached, Sequence[int]], Awaitable[dict[int, str]]]


RETRY = Verb("retried", "ready", lambda on, keys: on.app.store.retry(on.pool, keys))
CANCEL = Verb(
    "cancelled", "cancelled", lambda on, keys: on.app.store.cancel(on.pool, keys, "requested")
)
DELETE = Verb("deleted", "deleted", lambda on, keys: on.app.store.delete(on.pool, keys))


@dataclass(slots=True)
class Changed:
    """What became of the jobs: how many were changed, and why the others were not."""

    verb: Verb
    named: bool
    answers: Counter[str] = field(default_factory=Counter)
    jobs: dict[str, str] = field(default_factory=dict)

    def add(self, answers: dict[str, str]) -> None:
        self.answers.update(answers.values())
        if self.named:
            self.jobs |= answers

    @property
    def number(self) -> int:
        return self.answers[self.verb.answer]

    @property
    def left(self) -> dict[str, int]:
        return {why: n for why, n in self.answers.items() if why != self.verb.answer and n}

    @property
    def exit(self) -> Exit:
        if self.left.keys() - {MISSING}:
            return Exit.CONFLICT
        return Exit.NO if self.left else Exit.OK

    def as_document(self) -> dict[str, Any]:
        counts = {"changed": self.number, "left": self.left}
        return counts | ({"jobs": self.jobs} if self.named else {})

    def __str__(self) -> str:
        told = f"{counted(self.number, 'job')} {_were(self.number)} {self.verb.past}."
        for why, number in sorted(self.left.items()):
            told += f" {counted(number, 'job')} {_were(number)} left: {WHY.get(why, why)}."
        return told


WHY = {
    MISSING: "there is none with this id",
    "held": "the unique key belongs to another job now",
    "running": "running",
    "completed": "completed already",
    "failed": "failed already",
    "cancelled": "cancelled already",
}


async def change(
    verb: Verb,
    ids: Sequence[str] | None,
    filter: Filter,
    states: list[StateName],
    where: Where,
    output: Output,
    dry_run: bool,
    yes: bool,
) -> None:
    """Change the jobs that are named, or those that a filter finds."""
    if bool(ids) == filter.is_given:
        raise typer.BadParameter("name the jobs by their ids, or by at least one filter")
    async with reached(where) as queue:
        if ids:
            await _change_named(verb, list(dict.fromkeys(ids)), queue, output, dry_run)
        else:
            await _change_found(verb, filter, states, queue, output, dry_run, yes)


async def _change_named(
    verb: Verb, ids: list[str], queue: Reached, output: Output, dry_run: bool
) -> None:
    if dry_run:
        found = [job for part in _parts(ids) for job in await _get(queue, part)]
        _show_dry_run(verb, found, False, output)
        return
    changed = Changed(verb, named=True)
    for part in _parts(ids):
        changed.add(await _apply(verb, queue, part))
    _report(changed, output)


async def _change_found(
    verb: Verb,
    filter: Filter,
    states: list[StateName],
    queue: Reached,
    output: Output,
    dry_run: bool,
    yes: bool,
) -> None:
    first, following = await anext(filter.pages(queue, states=states))
    if dry_run:
        _show_dry_run(verb, first, following is not None, output)
        return
    if first and not yes:
        more = " and more" if following else ""
        confirm(f"{counted(len(first), 'job')}{more} will be {verb.past}.")
    changed = Changed(verb, named=False)
    async for part in _with_progress(filter.pages(queue, states=states), changed):
        changed.add(await _apply(verb, queue, [job.id for job in part]))
    _report(changed, output)


async def _with_progress(
    pages: AsyncIterator[tuple[tuple[Job, ...], str | None]], changed: Changed
) -> AsyncIterator[tuple[Job, ...]]:
    """The pages, with a line on stderr that counts what was changed."""
    with terminal(stderr=True).status("…") as status:
        async for jobs, _ in pages:
            yield jobs
            status.update(f"{counted(changed.number, 'job')} {changed.verb.past} …")


async def _apply(verb: Verb, queue: Reached, ids: Sequence[str]) -> dict[str, str]:
    keys = {key: job for job in ids if (key := _key(job)) is not None}
    answers = await verb.call(queue, list(keys)) if keys else {}
    found = {keys[key]: answer for key, answer in answers.items()}
    return {job: found.get(job, MISSING) for job in ids}


async def _get(queue: Reached, ids: Sequence[str]) -> list[Job]:
    keys = [key for job in ids if (key := _key(job)) is not None]
    return await queue.app.store.get(queue.pool, keys)


def _key(job: str) -> int | None:
    try:
        return key_of(job)
    except JobNotFound:
        return None


def _parts(ids: list[str]) -> list[list[str]]:
    return [ids[start : start + PAGE] for start in range(0, len(ids), PAGE)]


def _show_dry_run(verb: Verb, jobs: Sequence[Job], more: bool, output: Output) -> None:
    ids = [job.id for job in jobs]
    if output.as_json:
        output.show({"dry_run": True, "matched": len(ids), "more": more, "ids": ids}, str)
        return
    draw(jobs_table(jobs[:SHOWN], terminal().width))
    number = f"{counted(len(ids), 'job')}{' and more' if more else ''}"
    draw(f"{number} would be {verb.past}; nothing was changed.")


def _report(changed: Changed, output: Output) -> None:
    output.show(changed.as_document(), lambda: str(changed))
    raise typer.Exit(changed.exit)


def _were(number: int) -> str:
    return "was" if number == 1 else "were"
