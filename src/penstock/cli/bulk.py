"""Change many jobs, page by page, and report how many were changed and why others were not."""

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
from penstock.cli.database import OpenQueue, current_user, open_queue_for
from penstock.cli.filters import PAGE_SIZE, JobFilterOptions, StateName
from penstock.cli.framework import Exit
from penstock.cli.options import DatabaseOptions, confirm
from penstock.cli.output import Output, draw, print_json, terminal
from penstock.cli.screens.jobs import jobs_table
from penstock.cli.tables import format_time
from penstock.errors import JobNotFound
from penstock.job import COMPLETED, Job
from penstock.store import key_of
from penstock.store.workflows import Workflows
from penstock.wording import counted, listed

MISSING = "missing"
KEY_HELD = "held"
MAX_NAMED = 20

REASONS = {
    MISSING: "there is no job with this id",
    KEY_HELD: "the unique key belongs to another job now",
    "running": "running",
    "scheduled": "scheduled",
    "completed": "completed already",
    "failed": "failed already",
    "cancelled": "cancelled already",
}

MAX_JOBS_SHOWN = 20


@dataclass(slots=True)
class ChangeResult:
    """The result of a command that retries, cancels or deletes jobs.

    `skipped` maps the id of each job that was not changed to the reason. `holders` maps a job whose
    unique key is taken to the job that holds the key. `due` is when the last job becomes due, if
    the jobs are retried at a rate. `workflows` counts, by workflow, the retried steps whose
    dependents were cancelled because the step had failed.
    """

    past: str
    number: int = 0
    skipped: dict[str, str] = field(default_factory=dict)
    holders: dict[str, str] = field(default_factory=dict)
    due: datetime | None = None
    workflows: Counter[str] = field(default_factory=Counter)

    async def find_holders(self, client: Client) -> None:
        """Read which jobs hold the unique keys of the jobs that could not be retried."""
        blocked = [
            job
            for job, reason in self.skipped.items()
            if reason == KEY_HELD and job not in self.holders
        ]
        if blocked:
            self.holders |= await client.unique_holders(blocked)

    @property
    def exit(self) -> Exit:
        if set(self.skipped.values()) - {MISSING}:
            return Exit.CONFLICT
        return Exit.NO if self.skipped else Exit.OK

    def show(self, output: Output, more: str = "") -> None:
        """Print the result, and end the command with its exit code."""
        output.show(self.as_document(), lambda: str(self) + more)
        raise typer.Exit(self.exit)

    def as_document(self) -> dict[str, Any]:
        skipped = [
            {"id": job, "why": reason} | self._holder(job) for job, reason in self.skipped.items()
        ]
        document: dict[str, Any] = {"changed": self.number, "left": skipped}
        optional = {"due": self.due, "workflows": self.workflows}
        return document | {name: value for name, value in optional.items() if value}

    def _holder(self, job: str) -> dict[str, str]:
        return {"held_by": self.holders[job]} if job in self.holders else {}

    def __str__(self) -> str:
        message = describe_changes(self.number, self.past, Counter(self.skipped.values()))
        shown = list(self.holders.items())[:MAX_NAMED]
        message += "".join(f" Job {of} now holds the unique key of job {job}." for job, of in shown)
        return message + describe_steps(self.workflows)


def describe_changes(number: int, past: str, skipped: Mapping[str, int]) -> str:
    """Say how many jobs were changed and, for each reason, how many were not."""
    message = f"{counted(number, 'job')} {_were(number)} {past}."
    for reason, count in sorted(skipped.items()):
        message += (
            f" {counted(count, 'job')} {_were(count)} left unchanged: "
            f"{REASONS.get(reason, reason)}."
        )
    return message


def describe_steps(workflows: Mapping[str, int]) -> str:
    """Say how to retry the jobs that were cancelled because of retried steps.

    `workflows` counts these steps by workflow. Return an empty string if there are none.
    """
    if not workflows:
        return ""
    number, names = sum(workflows.values()), sorted(workflows, key=int)
    steps = "is a step of" if number == 1 else "are steps of"
    flows = "workflow" if len(names) == 1 else "workflows"
    shown = ", ".join(names[:MAX_NAMED]) + (" and others" if len(names) > MAX_NAMED else "")
    return (
        f" {number:,} of them {steps} {flows} {shown}: `penstock workflows retry {names[0]}` also "
        f"brings back what was cancelled because of {'it' if number == 1 else 'them'}."
    )


def describe_rate(rate: str | None, due: datetime | None) -> str:
    """Say when the last retried job is due. Return an empty string if no rate was given."""
    if rate is None or due is None:
        return ""
    return f" At {rate} the last of them is due at {format_time(due)} UTC."


def _were(number: int) -> str:
    return "was" if number == 1 else "were"


@dataclass(frozen=True, slots=True)
class BulkAction:
    """An action on many jobs, and the replies of the client that mean success."""

    past: str
    success: Set[str]
    call: Callable[[Client, Sequence[str]], Awaitable[dict[str, str]]]


# In a workflow, a retried job is blocked while jobs that it waits for have not ended.
RETRY = BulkAction("retried", {"ready", "blocked"}, Client.retry_many)
# A job that completes during the question, or while others are changed, does not run again.
RETRY_UNFINISHED = BulkAction(
    RETRY.past, RETRY.success, lambda client, jobs: client.retry_many(jobs, completed=False)
)
CANCEL = BulkAction("cancelled", {"cancelled"}, Client.cancel_many)
DELETE = BulkAction("deleted", {"deleted"}, Client.delete_many)
UNBLOCK = BulkAction(
    "unblocked", {"ready"}, lambda client, jobs: client.unblock_many(jobs, by=current_user())
)


@dataclass(frozen=True, slots=True)
class Selection:
    """The jobs to change: either ids, or a filter with default states."""

    ids: list[str]
    filter: JobFilterOptions
    states: list[StateName]

    @classmethod
    def of(
        cls, ids: Sequence[str] | None, filter: JobFilterOptions, states: list[StateName]
    ) -> Selection:
        """Select jobs by ids or by a filter.

        Raises `BadParameter` for both or neither. Only --tenant can be combined with ids.
        """
        if bool(ids) == (filter.is_given and not (ids and filter.is_only_tenant)):
            raise typer.BadParameter(
                "name the jobs either by their ids or by at least one filter; only --tenant can "
                "be combined with ids"
            )
        return cls(list(dict.fromkeys(ids or ())), filter, states)

    @property
    def matching_states(self) -> list[StateName]:
        """The states that the filter names, or else the default states."""
        return self.filter.state or self.states

    async def pages(self, queue: OpenQueue) -> AsyncIterator[tuple[list[str], bool]]:
        """Yield pages of job ids, each with a flag that says whether another page may follow."""
        for start in range(0, len(self.ids), PAGE_SIZE):
            yield self.ids[start : start + PAGE_SIZE], start + PAGE_SIZE < len(self.ids)
        if not self.ids:
            async for page in self.filter.id_pages(queue, self.states):
                yield page


def change_jobs(
    action: BulkAction,
    selection: Selection,
    db: DatabaseOptions,
    output: Output,
    *,
    dry_run: bool,
    yes: bool,
) -> None:
    """Change the selected jobs and print the result, or only print the jobs of a dry run.

    Ask the user first if a filter selects the jobs, or if completed jobs would run again.
    """
    if dry_run or not (selection.ids or yes):
        jobs, more = asyncio.run(_read_first_page(selection, db))
        number = f"{counted(len(jobs), 'job')}{' and more' if more else ''}"
        if dry_run:
            _show_dry_run(
                jobs, more, f"{number} would be {action.past}; nothing was changed.", output
            )
            return
        if jobs:
            confirm(f"{number} will be {action.past}.{_describe_reruns(action, jobs)}")
    elif action is RETRY and not yes:
        completed = asyncio.run(_find_completed(selection, db))
        if completed:
            confirm(_describe_reruns(action, completed).strip())
        else:
            action = RETRY_UNFINISHED
    if (
        action is RETRY
        and not selection.ids
        and StateName.completed not in selection.matching_states
    ):
        action = RETRY_UNFINISHED
    asyncio.run(_change_all(action, selection, db)).show(output)


def _describe_reruns(action: BulkAction, jobs: Sequence[Job]) -> str:
    """Say which completed jobs will run again. Return an empty string if there are none."""
    completed = [f"{job.id} ({job.task})" for job in jobs if job.state == COMPLETED]
    if action is not RETRY or not completed:
        return ""
    number = f"{counted(len(completed), 'job')} {'has' if len(completed) == 1 else 'have'}"
    return f" {number} completed, and will run again: {listed(completed)}."


async def _find_completed(selection: Selection, db: DatabaseOptions) -> list[Job]:
    """Return the selected jobs that have completed."""
    completed: list[Job] = []
    async with open_queue_for(db, selection.filter.tenant) as queue:
        async for ids, _ in selection.pages(queue):
            jobs = (await read_jobs(queue, ids, selection.filter.tenant)).values()
            completed += [job for job in jobs if job.state == COMPLETED]
    return completed


async def _read_first_page(selection: Selection, db: DatabaseOptions) -> tuple[list[Job], bool]:
    """Return the first page of selected jobs, and whether another page may follow."""
    async with open_queue_for(db, selection.filter.tenant) as queue:
        ids, more = await anext(selection.pages(queue))
        jobs = await read_jobs(queue, ids, selection.filter.tenant)
    return [jobs[job] for job in ids if job in jobs], more


async def read_jobs(queue: OpenQueue, ids: Sequence[str], tenant: str | None) -> dict[str, Job]:
    """Return jobs by id. If a tenant is named, leave out the jobs of other tenants."""
    jobs = await queue.app.store.get(queue.executor, list(_keys_of(ids).values()))
    return {job.id: job for job in jobs if tenant is None or job.tenant == tenant}


async def _change_all(
    action: BulkAction, selection: Selection, db: DatabaseOptions
) -> ChangeResult:
    """Change all selected jobs page by page, and show the count so far on stderr."""
    changed = ChangeResult(action.past)
    tenant = selection.filter.tenant
    async with open_queue_for(db, tenant) as queue:
        workflows = Workflows(queue.app.store)
        with terminal(stderr=True).status("…") as status:
            async for ids, _ in selection.pages(queue):
                answers = await _apply(action, queue, ids, tenant if selection.ids else None)
                skipped = {
                    job: answer for job, answer in answers.items() if answer not in action.success
                }
                changed.number += len(answers) - len(skipped)
                changed.skipped |= skipped
                if action in (RETRY, RETRY_UNFINISHED):
                    retried_keys = [
                        key for job, key in _keys_of(list(answers)).items() if job not in skipped
                    ]
                    changed.workflows += await workflows.count_cancelled_branches(
                        queue.executor, retried_keys
                    )
                status.update(f"{counted(changed.number, 'job')} {action.past} …")
        await changed.find_holders(queue.client)
    return changed


async def _apply(
    action: BulkAction, queue: OpenQueue, ids: Sequence[str], tenant: str | None
) -> dict[str, str]:
    """Change one page of jobs, and return the reply for each id.

    The reply for a job of another tenant is that the job is missing.
    """
    jobs_of_tenant = ids if tenant is None else list(await read_jobs(queue, ids, tenant))
    return dict.fromkeys(ids, MISSING) | await action.call(queue.client, jobs_of_tenant)


def _keys_of(ids: Sequence[str]) -> dict[str, int]:
    """Return the database key of each id. Leave out strings that cannot be ids."""
    keys = {}
    for job in ids:
        with suppress(JobNotFound):
            keys[job] = key_of(job)
    return keys


def _show_dry_run(jobs: Sequence[Job], more: bool, message: str, output: Output) -> None:
    if output.as_json:
        ids = [job.id for job in jobs]
        print_json({"dry_run": True, "matched": len(ids), "more": more, "ids": ids})
        return
    draw(jobs_table(jobs[:MAX_JOBS_SHOWN], terminal().width))
    draw(message)
