"""Failures that no handler raised: what the queue says of the attempts of a drain."""

from __future__ import annotations

from penstock.app import Penstock
from penstock.errors import UnknownTask
from penstock.job import Job
from penstock.store import key_of
from penstock.testing.errors import NotDrained, surprise
from penstock.testing.jobs import enqueued
from penstock.testing.watch import Watch


async def parked_job(app: Penstock) -> NotDrained | None:
    """A job that was put back because nobody here can run it."""
    for job in await enqueued(app):
        if job.stuck_since is not None:
            return NotDrained(f"Job {job.id} of {job.task} cannot be run. {_why(app, job)}")
    return None


def _why(app: Penstock, job: Job) -> str:
    if job.reason == "unknown_task":
        return str(UnknownTask(job.task, app.tasks.names()))
    return job.last_error.message if job.last_error else str(job.reason)


async def hidden_failure(app: Penstock, watch: Watch) -> Exception | None:
    """An attempt that failed although its handler raised nothing: it took too long, its
    transaction was not committed after ctx.complete, it returned what makes no sense."""
    ids = [key_of(job) for job, _ in watch.places]
    for job in await app._ask(lambda on: app.store.get(on, ids)):
        for error in job.errors:
            call = watch.places.get((job.id, error.attempt))
            found = surprise(error)
            if call is not None and not call.struck and found is not None:
                found.add_note(call.note())
                return found
    return None
