"""Why a document is not in, in words for its owner, who runs neither the service nor its machines.

The job keeps what went wrong in full, for those who do.
"""

from __future__ import annotations

from typing import Final

from penstock import AttemptError, Job, Process, Retryable
from penstock.net.errors import FetchFailed, FetchRefused
from penstock.storage.errors import (
    ObjectDamaged,
    ObjectMissing,
    StorageDown,
    StorageFull,
    StorageRefuses,
)
from penstock_apps.knowledge.embed import KeyMissing, Misfit, Refused
from penstock_apps.knowledge.errors import FILE_GONE
from penstock_apps.knowledge.extras import NotInstalled
from penstock_apps.knowledge.parse.errors import NotParsed, ParserRefuses
from penstock_apps.knowledge.settings import MB, Settings
from penstock_apps.knowledge.store.documents import State

GB: Final = 1024 * MB
DAMAGED: Final = "Its stored file is damaged: upload it again, and tell who runs this service."
FAULT: Final = (
    "This service could not bring it in. Try it again later, and tell who runs the service if it "
    "stays so"
)
MODEL: Final = (
    "The model of its knowledge base could not be asked. Try it again later, and tell who runs the "
    "service if it stays so"
)
PARSER: Final = (
    "The service that reads such files could not be asked. Try it again later, and tell who runs "
    "the service if it stays so"
)
# What a child process is said to have died of, when nobody limited it.
CRASHES: Final = frozenset({"Segfault", "Killed", "Exited", "ProtocolError"})
STORAGE: Final = {each.__name__: each.public for each in (StorageDown, StorageFull, StorageRefuses)}
# What they say is about what the owner has sent, or about a server that the owner has named.
OWN: Final = frozenset({FetchFailed.__name__})


def outcome_of(job: Job | None, settings: Settings) -> tuple[State, str | None, str | None]:
    """What a document has come to whose job ended without saying so: state, reason, error."""
    if job is None:
        return "failed", "lost", "Its job is not kept any more."
    if job.state == "cancelled":
        return "cancelled", job.reason, None
    if job.last_error is None:
        return "failed", job.reason, None
    return "failed", job.reason, _told(job, job.last_error, settings.apart) or faulty(job.id)


def faulty(job: str) -> str:
    """What the owner of a document reads of an error that only an operator can understand."""
    return f"{FAULT} (job {job})."


def told_of(error: Exception, job: str) -> str:
    """What the owner reads of an error that ends a document at once, without internal details.

    Operators find those in the log, and in the job if it has failed.
    """
    match error:
        case ObjectMissing():
            return FILE_GONE
        case ObjectDamaged():
            return DAMAGED
        case FetchRefused() | Refused(texts=1):
            return str(error)
        case ParserRefuses():
            return f"{PARSER} (job {job})."
        case NotParsed():
            return str(error)
        case KeyMissing() | Misfit() | NotInstalled() | Refused() | Retryable():
            return f"{MODEL} (job {job})."
    return faulty(job)


def _told(job: Job, error: AttemptError, limits: Process) -> str | None:
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
    if kind in CRASHES:
        return "The file cannot be read: its reader broke down. Save it anew and send that."
    return error.message if kind in OWN else STORAGE.get(kind)


def _size(number: int) -> str:
    unit, name = (GB, "GB") if number >= GB else (MB, "MB")
    return f"{number / unit:,.4g} {name}"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:g} seconds"
    return f"{seconds / 60:,.3g} minutes"
