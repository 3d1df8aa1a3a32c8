"""Why a job is not done yet, in words for the one who waits for it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct

from penstock.insights.place import Place
from penstock.insights.workers import WorkerInsight
from penstock.job import Job

Kind = Literal[
    "paused",
    "no_worker",
    "unknown_task",
    "bad_arguments",
    "missing_resource",
    "busy",
    "isolation",
    "in_line",
    "retry",
    "later",
    "overdue",
    "lost",
    "blocked",
]

# Completes the sentence "It was put back: …".
PARKED: dict[str, str] = {
    "unknown_task": "the worker that took it does not know the task {task}; "
    "deploy the code that has it",
    "bad_arguments": "its arguments do not fit the task {task}, and the last error says where; "
    "deploy the code that knows them, or cancel the job",
    "missing_resource": "the worker that took it could not open a resource of the task {task}",
}


class Wait(Struct, frozen=True):
    """One reason, and what to do about it."""

    kind: Kind
    message: str


def waits_of(
    job: Job, place: Place, *, paused: Collection[str], workers: Sequence[WorkerInsight]
) -> tuple[Wait, ...]:
    """The reasons why a job waits; none if it runs as it should, or has ended."""
    living = [worker for worker in workers if worker.is_alive]
    match job.state:
        case "ready":
            return tuple(_in_the_way(job, paused, living)) or (_in_line(job, living),)
        case "scheduled":
            return (_later(job, living, place.at), *_in_the_way(job, paused, living))
        case "blocked":
            return (Wait("blocked", "It waits for other jobs to end."),)
        case "running" if not place.is_alive:
            return (_lost(place.worker),)
        case _:
            return ()


def _in_the_way(
    job: Job, paused: Collection[str], living: Sequence[WorkerInsight]
) -> Iterator[Wait]:
    """What keeps workers from taking it, however long it waits."""
    if job.queue in paused:
        yield Wait(
            "paused",
            f"The queue {job.queue} is paused. `penstock queues resume {job.queue}` ends that.",
        )
    serving = [worker for worker in living if job.queue in worker.queues]
    if not serving:
        yield Wait(
            "no_worker",
            f"No living worker serves the queue {job.queue}. "
            f"Start one: `penstock work APP --queue {job.queue}`.",
        )
    # A worker that names no tasks is none of ours, and may know any.
    elif all(worker.tasks and job.task not in worker.tasks for worker in serving):
        yield Wait(
            "unknown_task",
            f"No living worker of the queue {job.queue} knows the task {job.task}. "
            "Deploy the code that has it.",
        )


def _in_line(job: Job, living: Sequence[WorkerInsight]) -> Wait:
    serving = [worker for worker in living if job.queue in worker.queues]
    free = [worker for worker in serving if not worker.is_busy]
    if not free:
        slots = sum(worker.slots for worker in serving)
        return Wait("busy", f"All {slots:,} slots of its workers are taken: it waits for one.")
    if all(worker.alone is not None for worker in free):
        return _in_isolation(job, free[0])
    return Wait("in_line", "It is in line: a worker takes it when its turn comes.")


def _in_isolation(job: Job, worker: WorkerInsight) -> Wait:
    return Wait(
        "isolation",
        f"It waits until job {worker.alone} has ended, which its worker {worker.name} runs alone: "
        "that job has lost its worker before, and must take no other with it if it happens again. "
        f"One more worker would not wait: `penstock work APP --queue {job.queue}`.",
    )


def _later(job: Job, living: Sequence[WorkerInsight], at: datetime) -> Wait:
    assert job.run_at is not None
    due = f"{job.run_at:%Y-%m-%d %H:%M:%S} UTC"
    if job.stuck_since is not None and job.reason in PARKED:
        why = PARKED[job.reason].format(task=job.task)
        kind: Kind = job.reason  # type: ignore[assignment]
        return Wait(kind, f"It was put back: {why}. It is tried again at {due}.")
    if job.run_at < at and not living:
        return Wait(
            "overdue", f"It was due at {due}, but no worker lives that would make it ready."
        )
    if job.failures:
        counted = f"{job.failures} of {job.max_attempts} attempts have failed"
        return Wait("retry", f"{counted}; the next is due at {due}.")
    return Wait("later", f"It is due at {due}.")


def _lost(worker: str | None) -> Wait:
    name = f" {worker}" if worker else ""
    return Wait(
        "lost",
        f"Its worker{name} has not been heard of for longer than its lease. The job goes back to "
        "its queue as soon as another worker looks for such jobs.",
    )
