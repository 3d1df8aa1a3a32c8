"""Settle documents whose jobs recorded no outcome, and describe errors to owners of documents."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from penstock import AttemptError, Job, Penstock, Process, Retryable
from penstock.net.errors import FetchFailed, FetchRefused
from penstock.storage.errors import (
    ObjectDamaged,
    ObjectMissing,
    StorageDown,
    StorageFull,
    StorageRefuses,
)
from penstock.telemetry import JobFinished
from penstock_apps.knowledge.embed import CallRefused, EmbedderMisfit, KeyMissing
from penstock_apps.knowledge.errors import FILE_GONE
from penstock_apps.knowledge.extras import NotInstalled
from penstock_apps.knowledge.ingest.llamaparse import NotParsed, ParserRefuses
from penstock_apps.knowledge.runtime import KnowledgeRuntime
from penstock_apps.knowledge.settings import MB, Settings
from penstock_apps.knowledge.sql import statement
from penstock_apps.knowledge.store.documents import State
from penstock_apps.knowledge.store.schema import schema_of

GB: Final = 1024 * MB
FILE_DAMAGED: Final = (
    "Its stored file is damaged. Upload it again, and tell whoever runs this service."
)
SERVICE_FAILED: Final = (
    "This service could not ingest it. Try again later, and tell whoever runs the service if it "
    "fails again"
)
MODEL_FAILED: Final = (
    "The model of its knowledge base could not be used. Try again later, and tell whoever runs "
    "the service if it fails again"
)
PARSER_FAILED: Final = (
    "The service that reads such files could not be used. Try again later, and tell whoever runs "
    "the service if it fails again"
)
# The errors of a child process that died for other reasons than its limits.
CRASH_ERRORS: Final = frozenset({"Segfault", "Killed", "Exited", "ProtocolError"})
STORAGE_REASONS: Final = {
    each.__name__: each.public for each in (StorageDown, StorageFull, StorageRefuses)
}
# Their messages are about the owner's document or a server that the owner named.
ERRORS_SHOWN_AS_THEY_ARE: Final = frozenset({FetchFailed.__name__})


def outcome_of(job: Job | None, settings: Settings) -> tuple[State, str | None, str | None]:
    """Return the state, reason and error to record for a document whose job recorded none."""
    if job is None:
        return "failed", "lost", "Its job is no longer kept, so its outcome is not known."
    if job.state == "cancelled":
        return "cancelled", job.reason, None
    if job.last_error is None:
        return "failed", job.reason, None
    return (
        "failed",
        job.reason,
        _describe_attempt_error(job, job.last_error, settings.extract_process)
        or describe_fault(job.id),
    )


def describe_fault(job: str) -> str:
    """Return the message to the owner of a document if only operators understand the error."""
    return f"{SERVICE_FAILED} (job {job})."


def describe_error(error: Exception, job: str) -> str:
    """Return the message to the owner of a document about an error, without internal details.

    Operators find the details in the log, and in the job if it has failed.
    """
    match error:
        case ObjectMissing():
            return FILE_GONE
        case ObjectDamaged():
            return FILE_DAMAGED
        case FetchRefused() | CallRefused(texts=1):
            return str(error)
        case ParserRefuses():
            return f"{PARSER_FAILED} (job {job})."
        case NotParsed():
            return str(error)
        case KeyMissing() | EmbedderMisfit() | NotInstalled() | CallRefused() | Retryable():
            return f"{MODEL_FAILED} (job {job})."
    return describe_fault(job)


def _describe_attempt_error(job: Job, error: AttemptError, limits: Process) -> str | None:
    kind = error.type
    seconds = job.timeout if error.kind == "timeout" else limits.seconds
    if kind == "OutOfMemory" and isinstance(limits.memory, int):
        return (
            f"The file needed more than {_size(limits.memory)} of memory to read. Split it into "
            "smaller files and send those."
        )
    if (kind == "TimeLimit" or error.kind == "timeout") and seconds is not None:
        return (
            f"The file took longer than {_duration(seconds)} to read. Split it into smaller "
            "files and send those."
        )
    if kind in CRASH_ERRORS:
        return (
            "The file cannot be read, because it made the reader crash. Save it anew and send that."
        )
    return error.message if kind in ERRORS_SHOWN_AS_THEY_ARE else STORAGE_REASONS.get(kind)


def _size(number: int) -> str:
    unit, name = (GB, "GB") if number >= GB else (MB, "MB")
    return f"{number / unit:,.4g} {name}"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:g} seconds"
    return f"{seconds / 60:,.3g} minutes"


DOCUMENTS_PER_QUERY = 500

logger = logging.getLogger("penstock.knowledge")


async def reconcile(runtime: KnowledgeRuntime, tenant: str, batch: str) -> None:
    """Record the missing outcomes of those documents of a batch whose jobs have ended."""
    while True:
        async with runtime.tables.transaction(tenant) as on:
            jobs = await runtime.documents.list_unsettled(on, tenant, batch, DOCUMENTS_PER_QUERY)
        if not await settle(runtime, tenant, jobs):
            return


async def settle(
    runtime: KnowledgeRuntime, tenant: str, jobs: Mapping[str, tuple[int, int]]
) -> int:
    """Record the outcomes of the documents whose jobs have ended; return the number of documents.

    `jobs` has the id and version of each document by the id of its job.
    """
    number = 0
    for job_id, (document, version) in jobs.items():
        job = await runtime.app.find(job_id)
        if job is None or job.is_final:
            state, reason, error = outcome_of(job, runtime.settings)
            async with runtime.tables.transaction(tenant) as on:
                await runtime.documents.record_outcome(
                    on, tenant, document, version, state, reason, error
                )
            number += 1
    return number


class FailureListener:
    """Records on a document at once that its job failed or was cancelled in this worker.

    If the worker itself dies, the callback of the batch or a sweep records the outcome later.
    """

    def __init__(self, app: Penstock, tasks: frozenset[str], settings: Settings) -> None:
        self._app = app
        self._settings = settings
        self._tasks = tasks
        self._sql = statement("settle_job", schema_of(app.database.schema))
        self._under_way = set[asyncio.Task[None]]()

    def __call__(self, event: JobFinished) -> None:
        if event.task in self._tasks and event.state in ("failed", "cancelled"):
            recording = asyncio.get_running_loop().create_task(self._record(event.job_id))
            self._under_way.add(recording)
            recording.add_done_callback(self._under_way.discard)

    async def _record(self, job_id: str) -> None:
        try:
            job = await self._app.find(job_id)
            if job is not None and job.is_final:
                pool = await self._app.pool()
                await pool.execute(self._sql, job_id, *outcome_of(job, self._settings))
        except Exception:
            logger.warning(
                "The outcome of job %s was not recorded on its document. A sweep will record "
                "it later.",
                job_id,
                exc_info=True,
            )
