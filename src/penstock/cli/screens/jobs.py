"""Jobs: a line each, or everything about one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from penstock.cli import tables
from penstock.cli.tables import ago, at, length
from penstock.insights import JobInsight, Moment, Place, Progress, StepInsight
from penstock.job import AttemptError, Job
from penstock.wording import counted

INDENT = 2


def job_page(seen: JobInsight) -> RenderableType:
    """All that is known about a job, the most wanted first."""
    job = seen.job
    parts: list[RenderableType] = [_title(job), _facts(seen)]
    parts += _section("arguments", _json(job.args))
    if job.result is not None:
        parts += _section("result", _json(job.result))
    if seen.steps:
        parts += _section("steps", _steps(seen.steps))
    for number, error in enumerate(job.errors):
        before = job.errors[number - 1] if number else None
        parts += _section(_heading(error), _error(error, before))
    parts += _section("timeline", _timeline(seen.timeline, seen.place.at))
    return Group(*parts)


def progress_line(progress: Progress, *, width: int = 30) -> Table:
    """How far a job is: a bar if the handler said how much there is, and its words."""
    line = Table.grid(padding=(0, 1))
    words = f"{progress.done:g}" + (f" of {progress.total:g}" if progress.total else "")
    said = Text(progress.message or "", no_wrap=True, overflow="ellipsis")
    if progress.share is None:
        line.add_row(words, said)
    else:
        line.add_row(ProgressBar(1.0, progress.share, width=width), words, said)
    return line


def _title(job: Job) -> Text:
    return Text.assemble(
        ("Job ", "bold"), (job.id, "bold"), "  ", (job.task, "bold cyan"), "  ",
        tables.state(job.state), (f" ({job.reason})" if job.reason else ""),
    )  # fmt: skip


def _facts(seen: JobInsight) -> Table:
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style=tables.FAINT, no_wrap=True)
    facts.add_column()
    for name, value in _named(seen):
        if value is not None and value != "":
            facts.add_row(f"  {name}", value)
    return facts


def _named(seen: JobInsight) -> Iterator[tuple[str, RenderableType | None]]:
    job, place = seen.job, seen.place
    for wait in seen.waits:
        yield "why it waits", Text(wait.message, "yellow")
    if job.state == "running":
        yield "worker", place.worker
    if place.progress is not None:
        yield "progress", progress_line(place.progress)
    if place.late is not None:
        yield "late", Text(_late(job, place), "yellow")
    yield "queue", _line(job)
    yield "limits", ", ".join(job.limits)
    yield "attempts", _attempts(job)
    yield "tenant", job.tenant
    yield "subject", job.subject
    yield "requested by", job.requested_by
    yield "tags", ", ".join(job.tags)
    yield "batch", job.batch
    yield "unique key", _unique(seen)
    yield "workflow", _workflow(job)
    yield "timeout", None if job.timeout is None else length(job.timeout)
    yield "deadline", None if job.deadline is None else f"{at(job.deadline)} UTC"
    yield "meta", _json(job.meta) if job.meta else None


def _workflow(job: Job) -> str | None:
    if job.workflow is None:
        return None
    return f"{job.workflow}, step {job.step}" if job.step else job.workflow


def _line(job: Job) -> str:
    lane = f", lane {job.lane}" if job.lane else ""
    return job.queue + lane + (f", priority {job.priority}" if job.priority else "")


def _unique(seen: JobInsight) -> str | None:
    if seen.job.unique_key is None or seen.holder is None:
        return seen.job.unique_key and f"{seen.job.unique_key}, held by nobody now"
    who = "it" if seen.holder.job == seen.job.id else f"job {seen.holder.job}"
    until = "" if seen.holder.until is None else f" until {at(seen.holder.until)} UTC"
    return f"{seen.job.unique_key}, held by {who}{until}"


def _late(job: Job, place: Place) -> str:
    assert place.late is not None
    assert place.late_after is not None
    assert job.run_at is not None
    return (
        f"by {length(place.late)}: it was due at {at(job.run_at)} UTC, and to be done within "
        f"{length(place.late_after)}"
    )


def _attempts(job: Job) -> str:
    lost = f", {job.losses} lost their worker" if job.losses else ""
    return f"{job.attempt} begun, {job.failures} of at most {job.max_attempts} failed{lost}"


def _section(title: str, content: RenderableType) -> list[RenderableType]:
    """A title and what is under it. Lines of text are not broken, so that they can be pasted."""
    if not isinstance(content, Text):
        return [Text(), Text(title, "bold"), Padding(content, (0, 0, 0, INDENT))]
    lines = [Text(" " * INDENT).append(line) for line in content.split("\n", allow_blank=True)]
    text = Text("\n", no_wrap=True, overflow="ignore").join(lines)
    return [Text(), Text(title, "bold"), text]


def _json(value: Any) -> Text:
    return Text(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def _heading(error: AttemptError) -> str:
    when = f", {at(error.at)} UTC" if error.at else ""
    worker = f", worker {error.worker}" if error.worker else ""
    return f"attempt {error.attempt}: {error.kind}{when}{worker}"


def _error(error: AttemptError, before: AttemptError | None) -> Text:
    text = Text.assemble((f"{error.type}: {error.message}".rstrip(": "), "red"))
    if error.traceback and before is not None and before.traceback == error.traceback:
        return text.append("\n(the traceback is that of the attempt before)", tables.FAINT)
    return text.append(f"\n{error.traceback.rstrip()}", tables.FAINT) if error.traceback else text


def _steps(steps: tuple[StepInsight, ...]) -> Table:
    lines = Table.grid(padding=(0, 2))
    for step in steps:
        note = step.note or f"{step.size:,} bytes"
        lines.add_row(
            Text(f"{at(step.at)} UTC", tables.FAINT),
            Text(step.kind, tables.FAINT),
            step.name,
            Text(note, tables.FAINT),
        )
    return lines


def _timeline(moments: tuple[Moment, ...], now: Any) -> Table:
    lines = Table.grid(padding=(0, 2))
    before: Any = None
    for moment in moments:
        since = "" if before is None else f"+ {length((moment.at - before).total_seconds())}"
        to_come = moment.at > now + timedelta(seconds=1)
        lines.add_row(
            Text(f"{at(moment.at)} UTC", tables.FAINT),
            Text(since, tables.FAINT, justify="right"),
            Text(moment.what, "italic" if to_come else ""),
        )
        before = moment.at
    return lines


ROOMY = 120
PARENT_FAILED = "parent_failed"
EVENT = "event:"
OTHERS = 42  # the width of state, tries, enqueued, the note, and all gaps


def jobs_table(
    jobs: Sequence[Job], width: int, late: Mapping[str, float] | None = None
) -> RenderableType:
    """Jobs as a table; columns that would be empty are left out. `late` are seconds by id."""
    if not jobs:
        return tables.nothing("There are no such jobs.")
    now = datetime.now(UTC)
    sheet = tables.Sheet(width)
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
            tables.state(job.state),
            job.task,
            job.queue,
            Text(str(job.attempt), "" if job.attempt else tables.FAINT),
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
            return Text(job.reason or "", tables.FAINT)
        case "completed" if job.finished_at and job.attempted_at:
            return Text(f"took {_between(job.attempted_at, job.finished_at)}", tables.FAINT)
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
