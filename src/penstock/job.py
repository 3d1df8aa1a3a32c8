"""A job as users see it: a frozen value, built from a row of the database."""

import re
from datetime import datetime
from typing import Any, Final, Literal

from msgspec import Struct

State = Literal["scheduled", "ready", "running", "blocked", "completed", "failed", "cancelled"]

SCHEDULED: Final = "scheduled"
READY: Final = "ready"
RUNNING: Final = "running"
BLOCKED: Final = "blocked"
COMPLETED: Final = "completed"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"

LIVE: Final[frozenset[State]] = frozenset({SCHEDULED, READY, RUNNING, BLOCKED})
FINAL: Final[frozenset[State]] = frozenset({COMPLETED, FAILED, CANCELLED})
STATES: Final[tuple[State, ...]] = (
    SCHEDULED,
    READY,
    RUNNING,
    BLOCKED,
    COMPLETED,
    FAILED,
    CANCELLED,
)

# "rerun" occurs in rows alone. It is no error, so Job has such entries in `earlier_ends`.
ErrorKind = Literal["failure", "timeout", "lost", "parked", "death", "unwritten", "rerun"]

MESSAGE_LIMIT: Final = 4 * 1024
TRACEBACK_LIMIT: Final = 16 * 1024
ELLIPSIS: Final = "…"
# Postgres stores neither NUL nor half of a surrogate pair.
UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")
# Separates the lane's name and the limit keys in a row's lane column. None of them may contain it.
UNIT_SEPARATOR: Final = "\x1f"


class Progress(Struct, frozen=True, kw_only=True):
    """The progress of a job, as its handler reported it last."""

    done: float
    total: float | None = None
    message: str | None = None

    @property
    def share(self) -> float | None:
        """The part that is done, from 0 to 1. None if the handler reported no total."""
        return min(max(self.done / self.total, 0.0), 1.0) if self.total else None


class AttemptError(Struct, frozen=True, kw_only=True):
    """The error of one attempt, as text.

    `began` and `at` are the times at which the attempt began and ended. They are None until the
    attempt is settled, because only the database sets times.
    """

    kind: ErrorKind = "failure"
    type: str
    message: str
    traceback: str = ""
    attempt: int = 0
    worker: str = ""
    at: datetime | None = None
    began: datetime | None = None


class EarlierEnd(Struct, frozen=True, kw_only=True):
    """An attempt that ended a job without an error, before somebody ran the job again."""

    attempt: int
    state: str
    began: datetime | None = None
    at: datetime | None = None


# gc=False saves work: a Job is built for each claimed job, and nothing in it can refer back to it.
class Job(Struct, frozen=True, kw_only=True, gc=False):
    """A request to run a task with arguments, and its present state."""

    id: str
    task: str
    state: State
    queue: str = "default"
    lane: str = ""
    limits: tuple[str, ...] = ()
    reason: str | None = None
    priority: int = 0

    tenant: str = ""
    subject: str | None = None
    requested_by: str | None = None
    tags: tuple[str, ...] = ()

    attempt: int = 0
    failures: int = 0
    losses: int = 0
    max_attempts: int = 5
    timeout: float | None = None
    retry: dict[str, Any] | None = None
    worker: str | None = None  # the worker that runs it, while it runs

    args: dict[str, Any]
    args_version: int = 1
    meta: dict[str, Any] = {}

    created_at: datetime
    run_at: datetime | None = None
    ready_at: datetime | None = None
    attempted_at: datetime | None = None
    finished_at: datetime | None = None
    deadline: datetime | None = None
    stuck_since: datetime | None = None

    batch: str | None = None
    workflow: str | None = None
    step: str | None = None  # the name of its step in the workflow
    pending: int = 0  # how many jobs it still waits for
    unique_key: str | None = None

    errors: tuple[AttemptError, ...] = ()
    earlier_ends: tuple[EarlierEnd, ...] = ()  # if somebody ran the job again after its end
    result: Any = None
    progress: Progress | None = None  # the last report of its handler

    @property
    def is_final(self) -> bool:
        """Whether the job has ended: it is completed, failed or cancelled."""
        return self.state in FINAL

    @property
    def last_error(self) -> AttemptError | None:
        """The error of the latest attempt that had one."""
        return self.errors[-1] if self.errors else None


def split_errors(
    entries: tuple[AttemptError, ...],
) -> tuple[tuple[AttemptError, ...], tuple[EarlierEnd, ...]]:
    """Split the errors of a row into the job's errors and its earlier ends."""
    if all(entry.kind != "rerun" for entry in entries):
        return entries, ()
    ends = (
        EarlierEnd(attempt=entry.attempt, state=entry.type, began=entry.began, at=entry.at)
        for entry in entries
        if entry.kind == "rerun"
    )
    return tuple(entry for entry in entries if entry.kind != "rerun"), tuple(ends)


def split_lane(lane: str) -> tuple[str, tuple[str, ...]]:
    """Split the lane column of a row into the lane's name and the job's limit keys."""
    name, *limits = lane.split(UNIT_SEPARATOR)
    return name, tuple(limits)


def storable(text: str, limit: int, *, keep_end: bool = False) -> str:
    """Return the text in a form that Postgres can store, in at most `limit` bytes.

    NUL and lone surrogates become U+FFFD. A text that is too long loses its end, or with
    `keep_end` its beginning.
    """
    part = text[-limit:] if keep_end else text[:limit]
    raw = UNSTORABLE.sub("\ufffd", part).encode()
    if len(part) == len(text) and len(raw) <= limit:
        return raw.decode()
    room = limit - len(ELLIPSIS.encode())
    if keep_end:
        return ELLIPSIS + raw[len(raw) - room :].decode(errors="ignore")
    return raw[:room].decode(errors="ignore") + ELLIPSIS
