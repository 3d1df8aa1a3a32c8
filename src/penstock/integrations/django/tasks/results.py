"""A job as a TaskResult."""

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
# What is stored as the job's result: what the task returned, and who ran it, which Django asks for.
RETURN_VALUE, WORKER = "return_value", "worker"


def result_of(job: Job, task: Task) -> TaskResult:
    """The result that a job of this task has come to so far."""
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
    """The task as it was enqueued.

    Not validated again: a queue may have been taken out of QUEUES since.
    """
    enqueued = {
        "priority": job.priority,
        "queue_name": job.queue,
        "backend": job.args["backend"],
        "run_after": from_stored(job.args["run_after"]),
    }
    same = object.__new__(type(task))
    for field in fields(task):
        value = enqueued.get(field.name, getattr(task, field.name))
        object.__setattr__(same, field.name, value)
    return same


def error_of(error: AttemptError) -> TaskError:
    """How an attempt ended badly, with the path of a class that Django can import."""
    told = error.traceback or f"{error.type}: {error.message}\n"
    return TaskError(exception_class_path=_class_path(error), traceback=told)


def as_django(moment: datetime | None) -> datetime | None:
    """A moment as the project has them: with a time zone if USE_TZ, else in local time."""
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
    """Who has run the job, attempt by attempt. One that was put back unseen is nobody's."""
    workers = [error.worker for error in job.errors if error.kind != "parked"]
    if job.state == RUNNING:
        workers.append(job.worker or "a worker that is gone")
    elif job.state == COMPLETED:
        workers.append(_stored(job).get(WORKER, ""))
    return workers


def _stored(job: Job) -> Mapping[str, Any]:
    """Empty for a result that was too large to be kept."""
    return job.result if isinstance(job.result, dict) and RETURN_VALUE in job.result else {}
