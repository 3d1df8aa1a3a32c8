"""Many jobs: a line each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from rich.console import RenderableType
from rich.text import Text

from penstock.cli.screens import style
from penstock.cli.words import ago, length
from penstock.job import Job
from penstock.wording import counted

ROOMY = 120
PARENT_FAILED = "parent_failed"
EVENT = "event:"
OTHERS = 42  # the width of state, tries, enqueued, the note, and all gaps


def jobs_table(
    jobs: Sequence[Job], width: int, late: Mapping[str, float] | None = None
) -> RenderableType:
    """Jobs as a table; columns that would be empty are left out. `late` are seconds by id."""
    if not jobs:
        return style.nothing("There are no such jobs.")
    now = datetime.now(UTC)
    sheet = style.Sheet(width)
    sheet.column("id")
    sheet.column("state")
    # An id is never cut: where there is no room for all, there is room for what it is.
    most = {"id": width, "task": max(16, width // 4), "queue": 16}
    roomy = width >= OTHERS + sum(min(_longest(jobs, name), most[name]) for name in most)
    sheet.column("task", most=most["task"] if roomy else None, elastic=not roomy)
    sheet.column("queue", most=most["queue"], needed=roomy)
    sheet.column("tries", right=True, needed=roomy)
    sheet.column("enqueued", right=True, needed=roomy)
    sheet.column("tenant", most=20, above=ROOMY, needed=any(job.tenant for job in jobs))
    # Most lanes are the tenant, which stands beside.
    has_lanes = any(job.lane not in ("", job.tenant) for job in jobs)
    sheet.column("lane", most=20, above=ROOMY, needed=has_lanes)
    sheet.column("limits", most=24, above=ROOMY, needed=any(job.limits for job in jobs))
    sheet.column("subject", most=24, above=ROOMY, needed=any(job.subject for job in jobs))
    sheet.column("", elastic=True, needed=roomy)
    for job in jobs:
        sheet.row(
            job.id,
            style.state(job.state),
            job.task,
            job.queue,
            Text(str(job.attempt), "" if job.attempt else style.FAINT),
            ago((now - job.created_at).total_seconds()),
            job.tenant,
            job.lane,
            ", ".join(job.limits),
            job.subject or "",
            Text(", ").join(filter(None, (_lateness(job, late or {}), note(job, now)))),
        )
    return sheet.table


def _longest(jobs: Sequence[Job], name: str) -> int:
    return max(len(getattr(job, name)) for job in jobs)


def _lateness(job: Job, late: Mapping[str, float]) -> Text:
    return Text(f"late by {length(late[job.id])}" if job.id in late else "", "yellow")


def note(job: Job, now: datetime) -> Text:
    """The one thing to know about a job in its state."""
    match job.state:
        case "failed":
            return Text(_failure(job), "red")
        case "cancelled":
            return Text(job.reason or "", style.FAINT)
        case "completed" if job.finished_at and job.attempted_at:
            return Text(f"took {_between(job.attempted_at, job.finished_at)}", style.FAINT)
        case "running" if job.attempted_at:
            return Text(f"for {_between(job.attempted_at, now)}")
        case "ready" if job.ready_at:
            return Text(f"waits for {_between(job.ready_at, now)}")
        case "scheduled" if job.run_at:
            return Text(f"{_when(job.run_at, now)}{_because(job)}")
        case "blocked":
            return Text(_blocked(job))
        case _:
            return Text("")


def _failure(job: Job) -> str:
    error = job.last_error
    if error is None:
        return job.reason or ""
    said = error.message.partition("\n")[0]
    return f"{job.reason}: {error.type}: {said}" if said else f"{job.reason}: {error.type}"


def _blocked(job: Job) -> str:
    """Whom it waits for; a job whose parent failed waits for a person."""
    if job.pending:
        held = ", not all of which completed" if job.pending > 1 else ", which did not complete"
        failed = held if job.reason == PARENT_FAILED else ""
        return f"waits for {counted(job.pending, 'job')}{failed}"
    event = (job.reason or "").removeprefix(EVENT)
    return f"waits for the event {event}" if event != job.reason else ""


def _because(job: Job) -> str:
    if job.reason:
        return f", {job.reason}"
    if job.failures and job.last_error:
        return f" after {job.last_error.type} ({job.failures}/{job.max_attempts})"
    return ""


def _when(due: datetime, now: datetime) -> str:
    return f"due in {_between(now, due)}" if due > now else f"due {_between(due, now)} ago"


def _between(begin: datetime, end: datetime) -> str:
    return length((end - begin).total_seconds())
