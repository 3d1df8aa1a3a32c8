"""Explain in sentences why a job has not ended yet."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime

from penstock.insights.job import EventWait, Place, event_waits, own_pause
from penstock.insights.waits import (
    Kind,
    QueuePosition,
    Wait,
    closed_window,
    full_limits,
    lane_pause,
    missing_budget,
    parent_wait,
)
from penstock.insights.workers import WorkerInsight
from penstock.job import Job
from penstock.tasks.workflow import Awaited

# Completes the sentence "It was put back: …".
PARKED: dict[str, str] = {
    "unknown_task": "the worker that took it does not know the task {task}; "
    "deploy the code that has it",
    "bad_arguments": "its arguments do not fit the task {task}, and the last error says where; "
    "deploy the code that knows them, or cancel the job",
    "missing_resource": "the worker that took it could not open a resource of the task {task}",
}


def list_waits(
    job: Job,
    place: Place,
    position: QueuePosition,
    *,
    paused: Collection[str],
    workers: Sequence[WorkerInsight],
    events: Sequence[EventWait] = (),
    parents: Sequence[Awaited] = (),
) -> tuple[Wait, ...]:
    """Return the reasons why a job waits. There are none if it runs as it should, or has ended."""
    living = [worker for worker in workers if worker.is_alive]
    match job.state:
        case "ready":
            obstacles = (
                *_obstacles(job, position, paused, living),
                *closed_window(job, position, place.at),
                *full_limits(position, place.at),
            )
            return obstacles or (_wait_for_slot(job, position, living),)
        case "scheduled":
            until_due = _wait_until_due(job, position, living, place.at)
            return (until_due, *_obstacles(job, position, paused, living))
        case "blocked" if events:
            return event_waits(job, events)
        case "blocked":
            return (parent_wait(job, parents),)
        case "running" if not place.is_alive:
            return (_wait_for_rescue(place.worker),)
        case _:
            return ()


def _obstacles(
    job: Job, position: QueuePosition, paused: Collection[str], living: Sequence[WorkerInsight]
) -> Iterator[Wait]:
    """Yield the reasons why no worker will take a job, however long it waits."""
    if job.queue in paused:
        yield Wait(
            "paused",
            f"The queue {job.queue} is paused. `penstock queues resume {job.queue}` ends that.",
        )
    yield from lane_pause(job, position)
    serving = [worker for worker in living if job.queue in worker.queues]
    if not serving:
        yield Wait(
            "no_worker",
            f"No living worker serves the queue {job.queue}. "
            f"Start one: `penstock work APP --queue {job.queue}`.",
        )
    elif not any(worker.serves(job.lane) for worker in serving):
        yield Wait(
            "other_tenants",
            f"The living workers of the queue {job.queue} serve other tenants than "
            f"{job.lane!r}. Start one that serves it: `penstock work APP --queue {job.queue}`.",
        )
    elif not any(worker.may_run(job.task) for worker in serving):
        yield Wait(
            "unknown_task",
            f"No living worker of the queue {job.queue} knows the task {job.task}. "
            "Deploy the code that has it.",
        )


def _wait_for_slot(job: Job, position: QueuePosition, living: Sequence[WorkerInsight]) -> Wait:
    """Explain why a ready job waits when only other jobs hold it up."""
    serving = [
        worker for worker in living if job.queue in worker.queues and worker.serves(job.lane)
    ]
    free = [worker for worker in serving if not worker.is_busy]
    if not free:
        slots = sum(worker.slots for worker in serving)
        message = f"All {slots:,} slots of its workers are taken: it waits for one."
        return Wait("busy", message + _jobs_ahead(position))
    if all(worker.alone is not None for worker in free):
        return _wait_for_isolated_job(job, free[0])
    message = "It is in line: a worker takes it when its turn comes."
    return Wait("in_line", message + _jobs_ahead(position))


def _jobs_ahead(position: QueuePosition) -> str:
    """Return a sentence about the jobs and lanes before this job, or an empty text."""
    ahead, others = position.ahead, position.others
    parts = []
    if ahead.number:
        parts.append(f"{ahead} {'job is' if str(ahead) == '1' else 'jobs are'} before it")
    if others.number:
        takes = "other lane takes" if str(others) == "1" else "other lanes take"
        parts.append(f"{others} {takes} turns with its own")
    return f" {', and '.join(parts)}." if parts else ""


def _wait_for_isolated_job(job: Job, worker: WorkerInsight) -> Wait:
    return Wait(
        "isolation",
        f"It waits until job {worker.alone} has ended. The worker {worker.name} runs that job "
        "alone, since it has lost its worker before and might take other jobs with it. "
        f"Another worker need not wait: `penstock work APP --queue {job.queue}`.",
    )


def _wait_until_due(
    job: Job, position: QueuePosition, living: Sequence[WorkerInsight], at: datetime
) -> Wait:
    """Explain why a scheduled job waits until its time."""
    assert job.run_at is not None
    due = f"{job.run_at:%Y-%m-%d %H:%M:%S} UTC"
    if job.stuck_since is not None and job.reason in PARKED:
        why = PARKED[job.reason].format(task=job.task)
        kind: Kind = job.reason  # type: ignore[assignment]
        return Wait(kind, f"It was put back: {why}. It is tried again at {due}.")
    for wait in missing_budget(job, position, due):
        return wait
    if job.run_at < at and not living:
        return Wait(
            "overdue", f"It was due at {due}, but no worker lives that would make it ready."
        )
    if (pause := own_pause(job, due)) is not None:
        return pause
    if job.failures:
        counted = f"{job.failures} of {job.max_attempts} attempts have failed"
        return Wait("retry", f"{counted}; the next is due at {due}.")
    return Wait("later", f"It is due at {due}.")


def _wait_for_rescue(worker: str | None) -> Wait:
    name = f" {worker}" if worker else ""
    return Wait(
        "lost",
        f"Its worker{name} has not been heard of for longer than its lease. The job goes back to "
        "its queue as soon as another worker looks for such jobs.",
    )
