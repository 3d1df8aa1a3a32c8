"""Converts jobs into TaskResults of django.tasks."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any

from django.conf import settings
from django.tasks import Task, TaskResult, TaskResultStatus
from django.tasks.base import TaskError
from django.utils import timezone

from penstock import errors
from penstock.job import (
    BLOCKED,
    CANCELLED,
    COMPLETED,
    FAILED,
    READY,
    RUNNING,
    SCHEDULED,
    AttemptError,
    Job,
)

STATUS: Mapping[str, TaskResultStatus] = {
    SCHEDULED: TaskResultStatus.READY,
    READY: TaskResultStatus.READY,
    BLOCKED: TaskResultStatus.READY,
    RUNNING: TaskResultStatus.RUNNING,
    COMPLETED: TaskResultStatus.SUCCESSFUL,
    FAILED: TaskResultStatus.FAILED,
    CANCELLED: TaskResultStatus.FAILED,
}
# The keys of a job's result: the task's return value, and the worker that Django wants to know.
RETURN_VALUE, WORKER = "return_value", "worker"


def result_of(job: Job, task: Task) -> TaskResult:
    """Return the TaskResult of a job in its present state."""
    began = [error.began for error in job.errors if error.began is not None]
    result = TaskResult(
        task=task,
        id=job.id,
        status=STATUS[job.state],
        enqueued_at=as_django(job.created_at),
        started_at=as_django(began[0] if began else job.attempted_at),
        last_attempted_at=as_django(job.attempted_at),
        finished_at=as_django(job.finished_at),
        args=job.args["args"],
        kwargs=job.args["kwargs"],
        backend=job.args["backend"],
        errors=[error_of(error) for error in job.errors],
        worker_ids=_workers(job),
    )
    if job.state == COMPLETED:
        object.__setattr__(result, "_return_value", _stored(job).get(RETURN_VALUE, job.result))
    return result


def task_of(job: Job, task: Task) -> Task:
    """Return the task with the options with which the job was enqueued.

    The options are not checked again, because the queue may have been removed from QUEUES since.
    """
    enqueued = {
        "priority": job.priority,
        "queue_name": job.queue,
        "backend": job.args["backend"],
        "run_after": from_stored(job.args["run_after"]),
    }
    copy = object.__new__(type(task))
    for field in fields(task):
        value = enqueued.get(field.name, getattr(task, field.name))
        object.__setattr__(copy, field.name, value)
    return copy


def error_of(error: AttemptError) -> TaskError:
    """Return an attempt's error as a TaskError, with the path of a class that can be imported."""
    text = error.traceback or f"{error.type}: {error.message}\n"
    return TaskError(exception_class_path=_class_path(error), traceback=text)


def as_django(moment: datetime | None) -> datetime | None:
    """Return a time in the project's form: with a time zone if USE_TZ is on, else a local time."""
    if moment is not None and not settings.USE_TZ:
        moment = timezone.make_naive(moment)
    return moment


def from_stored(run_after: str | None) -> datetime | None:
    return as_django(None if run_after is None else datetime.fromisoformat(run_after))


def _class_path(error: AttemptError) -> str:
    if "." in error.type:
        return error.type
    if hasattr(builtins, error.type):
        return f"builtins.{error.type}"
    if error.kind == "timeout":
        return "builtins.TimeoutError"
    name = error.type if hasattr(errors, error.type) else "PenstockError"
    return f"penstock.errors.{name}"


def _workers(job: Job) -> list[str]:
    """Return the workers of the job's attempts, except attempts that were put back unrun."""
    workers = [error.worker for error in job.errors if error.kind != "parked"]
    if job.state == RUNNING:
        workers.append(job.worker or "a worker that is gone")
    elif job.state == COMPLETED:
        workers.append(_stored(job).get(WORKER, ""))
    return workers


def _stored(job: Job) -> Mapping[str, Any]:
    """Return the stored result; {} if it was too large to be kept."""
    return job.result if isinstance(job.result, dict) and RETURN_VALUE in job.result else {}
