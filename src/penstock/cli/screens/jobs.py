"""Draw jobs: a table with a row for each job, or a page about one job."""

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
from penstock.cli.tables import format_age, format_duration, format_time
from penstock.insights import JobInsight, Moment, Place, Progress, StepInsight
from penstock.job import AttemptError, Job
from penstock.wording import counted

INDENT = 2

ROOMY_WIDTH = 120
PARENT_FAILED_REASON = "parent_failed"
EVENT_PREFIX = "event:"
# The width of state, tries, enqueued, the note, and all gaps.
OTHER_COLUMNS_WIDTH = 42


def job_page(insight: JobInsight) -> RenderableType:
    """Return a page with everything about a job, the most important first."""
    job = insight.job
    parts: list[RenderableType] = [_title(job), _facts(insight)]
    parts += _section("arguments", _json(job.args))
    if job.result is not None:
        parts += _section("result", _json(job.result))
    if insight.steps:
        parts += _section("steps", _steps(insight.steps))
    for number, error in enumerate(job.errors):
        previous = job.errors[number - 1] if number else None
        parts += _section(_heading(error), _error(error, previous))
    parts += _section("timeline", _timeline(insight.timeline, insight.place.at))
    return Group(*parts)


def progress_line(progress: Progress, *, width: int = 30) -> Table:
    """Return the progress of a job: its message, and a bar if the handler gave a total."""
    grid = Table.grid(padding=(0, 1))
    words = f"{progress.done:g}" + (f" of {progress.total:g}" if progress.total else "")
    message = Text(progress.message or "", no_wrap=True, overflow="ellipsis")
    if progress.share is None:
        grid.add_row(words, message)
    else:
        grid.add_row(ProgressBar(1.0, progress.share, width=width), words, message)
    return grid


def _title(job: Job) -> Text:
    return Text.assemble(
        ("Job ", "bold"), (job.id, "bold"), "  ", (job.task, "bold cyan"), "  ",
        tables.state_text(job.state), (f" ({job.reason})" if job.reason else ""),
    )  # fmt: skip


def _facts(insight: JobInsight) -> Table:
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style=tables.FAINT, no_wrap=True)
    facts.add_column()
    for name, value in _fact_rows(insight):
        if value is not None and value != "":
            facts.add_row(f"  {name}", value)
    return facts


def _fact_rows(insight: JobInsight) -> Iterator[tuple[str, RenderableType | None]]:
    job, place = insight.job, insight.place
    for wait in insight.waits:
        yield "why it waits", Text(wait.message, "yellow")
    if job.state == "running":
        yield "worker", place.worker
    if place.progress is not None:
        yield "progress", progress_line(place.progress)
    if place.late is not None:
        yield "late", Text(_describe_lateness(job, place), "yellow")
    yield "queue", _describe_lane(job)
    yield "limits", ", ".join(job.limits)
    yield "attempts", _describe_attempts(job)
    yield "tenant", job.tenant
    yield "subject", job.subject
    yield "requested by", job.requested_by
    yield "tags", ", ".join(job.tags)
    yield "batch", job.batch
    yield "unique key", _describe_unique_key(insight)
    yield "workflow", _describe_workflow(job)
    yield "timeout", None if job.timeout is None else format_duration(job.timeout)
    yield "deadline", None if job.deadline is None else f"{format_time(job.deadline)} UTC"
    yield "meta", _json(job.meta) if job.meta else None


def _describe_workflow(job: Job) -> str | None:
    if job.workflow is None:
        return None
    return f"{job.workflow}, step {job.step}" if job.step else job.workflow


def _describe_lane(job: Job) -> str:
    lane = f", lane {job.lane}" if job.lane else ""
    return job.queue + lane + (f", priority {job.priority}" if job.priority else "")


def _describe_unique_key(insight: JobInsight) -> str | None:
    if insight.job.unique_key is None or insight.holder is None:
        return insight.job.unique_key and f"{insight.job.unique_key}, held by nobody now"
    holder = "it" if insight.holder.job == insight.job.id else f"job {insight.holder.job}"
    until = (
        "" if insight.holder.until is None else f" until {format_time(insight.holder.until)} UTC"
    )
    return f"{insight.job.unique_key}, held by {holder}{until}"


def _describe_lateness(job: Job, place: Place) -> str:
    assert place.late is not None
    assert place.late_after is not None
    assert job.run_at is not None
    return (
        f"by {format_duration(place.late)}: it was due at {format_time(job.run_at)} UTC, "
        f"and to be done within {format_duration(place.late_after)}"
    )


def _describe_attempts(job: Job) -> str:
    lost = f", {job.losses} lost their worker" if job.losses else ""
    return f"{job.attempt} begun, {job.failures} of at most {job.max_attempts} failed{lost}"


def _section(title: str, content: RenderableType) -> list[RenderableType]:
    """Return a title and its content. Text is never wrapped, so that it can be pasted."""
    if not isinstance(content, Text):
        return [Text(), Text(title, "bold"), Padding(content, (0, 0, 0, INDENT))]
    lines = [Text(" " * INDENT).append(line) for line in content.split("\n", allow_blank=True)]
    text = Text("\n", no_wrap=True, overflow="ignore").join(lines)
    return [Text(), Text(title, "bold"), text]


def _json(value: Any) -> Text:
    return Text(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def _heading(error: AttemptError) -> str:
    when = f", {format_time(error.at)} UTC" if error.at else ""
    worker = f", worker {error.worker}" if error.worker else ""
    return f"attempt {error.attempt}: {error.kind}{when}{worker}"


def _error(error: AttemptError, before: AttemptError | None) -> Text:
    text = Text.assemble((f"{error.type}: {error.message}".rstrip(": "), "red"))
    if error.traceback and before is not None and before.traceback == error.traceback:
        return text.append("\n(the traceback is that of the attempt before)", tables.FAINT)
    return text.append(f"\n{error.traceback.rstrip()}", tables.FAINT) if error.traceback else text


def _steps(steps: tuple[StepInsight, ...]) -> Table:
    grid = Table.grid(padding=(0, 2))
    for step in steps:
        note = step.note or f"{step.size:,} bytes"
        grid.add_row(
            Text(f"{format_time(step.at)} UTC", tables.FAINT),
            Text(step.kind, tables.FAINT),
            step.name,
            Text(note, tables.FAINT),
        )
    return grid


def _timeline(moments: tuple[Moment, ...], now: Any) -> Table:
    grid = Table.grid(padding=(0, 2))
    previous: Any = None
    for moment in moments:
        since = (
            ""
            if previous is None
            else f"+ {format_duration((moment.at - previous).total_seconds())}"
        )
        to_come = moment.at > now + timedelta(seconds=1)
        grid.add_row(
            Text(f"{format_time(moment.at)} UTC", tables.FAINT),
            Text(since, tables.FAINT, justify="right"),
            Text(moment.what, "italic" if to_come else ""),
        )
        previous = moment.at
    return grid


def jobs_table(
    jobs: Sequence[Job], width: int, late: Mapping[str, float] | None = None
) -> RenderableType:
    """Return jobs as a table without empty columns. `late` maps a job's id to how late it is."""
    if not jobs:
        return tables.empty_text("There are no such jobs.")
    now = datetime.now(UTC)
    builder = tables.TableBuilder(width)
    builder.column("id")
    builder.column("state")
    # An id is never cut: on a narrow terminal other columns give way.
    max_widths = {"id": width, "task": max(16, width // 4), "queue": 16}
    is_roomy = width >= OTHER_COLUMNS_WIDTH + sum(
        min(_longest_value(jobs, name), max_widths[name]) for name in max_widths
    )
    builder.column("task", max_width=max_widths["task"] if is_roomy else None, elastic=not is_roomy)
    builder.column("queue", max_width=max_widths["queue"], needed=is_roomy)
    builder.column("tries", align_right=True, needed=is_roomy)
    builder.column("enqueued", align_right=True, needed=is_roomy)
    builder.column(
        "tenant", max_width=20, wider_than=ROOMY_WIDTH, needed=any(job.tenant for job in jobs)
    )
    # Most lanes are named after the tenant, which has a column of its own.
    has_lanes = any(job.lane not in ("", job.tenant) for job in jobs)
    builder.column("lane", max_width=20, wider_than=ROOMY_WIDTH, needed=has_lanes)
    builder.column(
        "limits", max_width=24, wider_than=ROOMY_WIDTH, needed=any(job.limits for job in jobs)
    )
    builder.column(
        "subject", max_width=24, wider_than=ROOMY_WIDTH, needed=any(job.subject for job in jobs)
    )
    builder.column("", elastic=True, needed=is_roomy)
    for job in jobs:
        builder.row(
            job.id,
            tables.state_text(job.state),
            job.task,
            job.queue,
            Text(str(job.attempt), "" if job.attempt else tables.FAINT),
            format_age((now - job.created_at).total_seconds()),
            job.tenant,
            job.lane,
            ", ".join(job.limits),
            job.subject or "",
            Text(", ").join(filter(None, (_late_note(job, late or {}), state_note(job, now)))),
        )
    return builder.table


def _longest_value(jobs: Sequence[Job], name: str) -> int:
    return max(len(getattr(job, name)) for job in jobs)


def _late_note(job: Job, late: Mapping[str, float]) -> Text:
    return Text(f"late by {format_duration(late[job.id])}" if job.id in late else "", "yellow")


def state_note(job: Job, now: datetime) -> Text:
    """Return the most useful remark on a job, which depends on its state."""
    match job.state:
        case "failed":
            return Text(_failed_note(job), "red")
        case "cancelled":
            return Text(job.reason or "", tables.FAINT)
        case "completed" if job.finished_at and job.attempted_at:
            return Text(f"took {_format_between(job.attempted_at, job.finished_at)}", tables.FAINT)
        case "running" if job.attempted_at:
            return Text(f"for {_format_between(job.attempted_at, now)}")
        case "ready" if job.ready_at:
            return Text(f"waits for {_format_between(job.ready_at, now)}")
        case "scheduled" if job.run_at:
            return Text(f"{_due_note(job.run_at, now)}{_retry_note(job)}")
        case "blocked":
            return Text(_blocked_note(job))
        case _:
            return Text("")


def _failed_note(job: Job) -> str:
    error = job.last_error
    if error is None:
        return job.reason or ""
    first_line = error.message.partition("\n")[0]
    return (
        f"{job.reason}: {error.type}: {first_line}" if first_line else f"{job.reason}: {error.type}"
    )


def _blocked_note(job: Job) -> str:
    """Say which jobs or event a blocked job waits for, and whether a parent did not complete."""
    if job.pending:
        remark = ", not all of which completed" if job.pending > 1 else ", which did not complete"
        failed = remark if job.reason == PARENT_FAILED_REASON else ""
        return f"waits for {counted(job.pending, 'job')}{failed}"
    event = (job.reason or "").removeprefix(EVENT_PREFIX)
    return f"waits for the event {event}" if event != job.reason else ""


def _retry_note(job: Job) -> str:
    if job.reason:
        return f", {job.reason}"
    if job.failures and job.last_error:
        return f" after {job.last_error.type} ({job.failures}/{job.max_attempts})"
    return ""


def _due_note(due: datetime, now: datetime) -> str:
    return (
        f"due in {_format_between(now, due)}"
        if due > now
        else f"due {_format_between(due, now)} ago"
    )


def _format_between(begin: datetime, end: datetime) -> str:
    return format_duration((end - begin).total_seconds())
