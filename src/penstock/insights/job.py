"""Describe one job: where it is, what happened to it, and what it keeps between attempts."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import Struct

from penstock.insights.waits import QueuePosition, Wait
from penstock.job import READY, RUNNING, SCHEDULED, Job, Progress
from penstock.store.insights import KeyHolder, Row
from penstock.wording import span


class Place(Struct, frozen=True, kw_only=True):
    """Where a job is at a moment: its worker, its progress, and how late it is."""

    at: datetime
    worker: str | None
    """The worker that runs it, if any."""
    is_alive: bool
    """Whether there is such a worker, and its lease is valid."""
    progress: Progress | None
    late_after: float | None
    """How many seconds after its time it counts as late, if it ever does."""
    late: float | None
    """For how many seconds it has been late."""


def progress_from(row: Row) -> Progress | None:
    """Build a `Progress` from the columns done, total and message; None if there is none.

    The columns are removed from the row.
    """
    done, total, message = row.pop("done"), row.pop("total"), row.pop("message")
    return None if done is None else Progress(done=done, total=total, message=message)


def place_from(row: Row) -> Place:
    """Build a `Place` from the row of `get_job_progress`."""
    return Place(progress=progress_from(row), **row)


# At most this many steps of a job are shown; few jobs have more.
MAX_STEPS = 1000


class StepInsight(Struct, frozen=True, kw_only=True):
    """What a job has stored under a name: the result of a step, a sleep, an event or its polls."""

    kind: Literal["step", "sleep", "event", "poll"]
    name: str
    at: datetime
    size: int
    """How many bytes its result takes as JSON."""
    note: str | None
    """A remark, such as until when the job sleeps. Steps have none."""


class EventWait(Struct, frozen=True):
    """An event that a job waits for. `until` is when the wait ends; None means never."""

    name: str
    until: datetime | None = None


def steps_from(rows: Sequence[Row]) -> tuple[StepInsight, ...]:
    """Describe the steps of a job from the rows of `get_steps`."""
    return tuple(
        StepInsight(
            kind=row["kind"],
            name=row["name"],
            at=row["created_at"],
            size=row["size"] or 0,
            note=_note(row["kind"], msgspec.json.decode(row["result"] or "null")),
        )
        for row in rows
    )


def _note(kind: str, result: Any) -> str | None:
    match kind, result:
        case "sleep", {"until": until}:
            return f"until {datetime.fromisoformat(until):%Y-%m-%d %H:%M:%S} UTC"
        case "event", {"event": number}:
            return f"got event {number}"
        case "poll", {"polls": polls}:
            counted = f"{polls:,} {'poll' if polls == 1 else 'polls'}"
            return counted + (", answered" if "answer" in result else _poll_state(result))
        case "event", _:
            return "not sent in time"
        case _:
            return None


def _poll_state(result: dict[str, Any]) -> str:
    return ", given up" if result.get("timed_out") else ", no answer yet"


def event_waits(job: Job, events: Sequence[EventWait]) -> tuple[Wait, ...]:
    """Explain why a job waits for events, and how to send them."""
    return tuple(Wait("event", _event_text(event, job.tenant)) for event in events)


def _event_text(event: EventWait, tenant: str) -> str:
    until = "" if event.until is None else f", until {event.until:%Y-%m-%d %H:%M:%S} UTC"
    send = ["penstock", "events", "send", event.name, *(("--tenant", tenant) if tenant else ())]
    return f"It waits for the event {event.name}{until}. `{shlex.join(send)}` sends it."


def own_pause(job: Job, due: str) -> Wait | None:
    """Explain the wait of a job whose own handler has put it off. Returns None for other jobs."""
    kind, _, name = (job.reason or "").partition(":")
    if kind == "sleep":
        return Wait("sleep", f"It sleeps until {due}.")
    if kind == "poll":
        return Wait("poll", f"It asks whether {name} is there again at {due}.")
    if kind == "event":
        return Wait("event", f"It looks again for the event {name} at {due}.")
    return None


class RunningJob(Struct, frozen=True, kw_only=True):
    """A job that is running."""

    id: str
    task: str
    queue: str
    tenant: str
    attempt: int
    started_at: datetime
    seconds: float
    worker: str | None
    is_alive: bool
    """Whether that worker is alive; the jobs of a lost one go back to their queue."""
    progress: Progress | None


class FailedJob(Struct, frozen=True, kw_only=True):
    """A job that has failed, with its reason and its last error."""

    id: str
    task: str
    queue: str
    tenant: str
    reason: str
    attempt: int
    finished_at: datetime
    seconds_ago: float
    error_type: str | None
    error_message: str | None


def running_from(row: Row) -> RunningJob:
    """Build a `RunningJob` from a row of `get_running_jobs`."""
    progress = progress_from(row)
    return RunningJob(**(row | {"id": str(row["id"])}), progress=progress)


def failed_from(row: Row) -> FailedJob:
    """Build a `FailedJob` from a row of `get_failures`."""
    return FailedJob(**(row | {"id": str(row["id"])}))


class Moment(Struct, frozen=True):
    """One event in the life of a job, in the past or planned."""

    at: datetime
    what: str


class JobInsight(Struct, frozen=True, kw_only=True):
    """A job with all that explains its state: its place, why it waits, and what happened to it."""

    job: Job
    place: Place
    turn: QueuePosition | None
    """Where it stands in its queue, if it is ready or scheduled."""
    waits: tuple[Wait, ...]
    timeline: tuple[Moment, ...]
    holder: KeyHolder | None = None
    """The job that holds its unique key, if it has a key and another job holds it."""
    steps: tuple[StepInsight, ...] = ()
    """What it has stored for later attempts."""

    @property
    def why(self) -> str:
        """Why the job has not ended, in sentences. Empty if it has, or the caller may not know."""
        if self.waits or self.job.state != RUNNING or self.job.attempted_at is None:
            return " ".join(wait.message for wait in self.waits)
        worker = f"Worker {self.place.worker}" if self.place.worker else "A worker"
        seconds = (self.place.at - self.job.attempted_at).total_seconds()
        return f"{worker} has been running its attempt {self.job.attempt} for {span(seconds)}."


def timeline_of(job: Job) -> tuple[Moment, ...]:
    """Return what happened to a job, in order of time, as far as the job's row records it."""
    return tuple(sorted(_moments(job), key=lambda moment: moment.at))


def _moments(job: Job) -> Iterator[Moment]:
    yield Moment(job.created_at, "enqueued")
    starts = sorted(_attempt_starts(job))
    yield from _unrecorded_attempts(starts)
    for attempt, began in starts:
        yield Moment(began, f"attempt {attempt} began")
    for error in job.errors:
        if error.at is not None:
            yield Moment(error.at, f"attempt {error.attempt}: {error.type}")
    for end in job.earlier_ends:
        if end.at is not None:
            yield Moment(end.at, f"attempt {end.attempt}: {end.state}")
    if job.state == READY and job.ready_at is not None:
        yield Moment(job.ready_at, "ready")
    if job.state == SCHEDULED and job.run_at is not None:
        yield Moment(job.run_at, "due")
    if job.finished_at is not None:
        yield Moment(job.finished_at, job.state)


def _unrecorded_attempts(starts: list[tuple[int, datetime]]) -> Iterator[Moment]:
    """Yield the attempts whose times are not stored: those that slept, waited or were put off."""
    last = 0
    for attempt, began in starts:
        if attempt == last + 2:
            yield Moment(began, f"attempt {last + 1} had ended without an error")
        elif attempt > last + 2:
            yield Moment(began, f"attempts {last + 1} to {attempt - 1} had ended without an error")
        last = attempt


def _attempt_starts(job: Job) -> set[tuple[int, datetime]]:
    """Return the attempts whose start the job's row records, each with the time of its start."""
    starts = {(error.attempt, error.began) for error in job.errors}
    starts |= {(end.attempt, end.began) for end in job.earlier_ends}
    starts.add((job.attempt, job.attempted_at))
    return {(attempt, began) for attempt, began in starts if began is not None}
