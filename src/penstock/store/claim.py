"""Decode claimed jobs lazily, since one claim may return hundreds of them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

import asyncpg
import msgspec

from penstock.job import AttemptError, Job, split_errors, split_lane


class LaneCursor(NamedTuple):
    """The position at which a claim starts to read the jobs of one lane and priority.

    No job before this position is ready.
    """

    lane: str
    priority: int
    ready_at: datetime
    id: int


class _Extra(msgspec.Struct):
    """Fields that few jobs have. The claim returns NULL for jobs without any of them."""

    run_at: datetime
    deadline: datetime | None = None
    stuck_since: datetime | None = None
    subject: str | None = None
    requested_by: str | None = None
    tags: tuple[str, ...] | None = None
    meta: dict[str, Any] | None = None
    retry: dict[str, Any] | None = None
    errors: tuple[AttemptError, ...] | None = None
    workflow: int | None = None
    step: str | None = None
    unique_key: str | None = None


# The kinds of errors that count as failures. A job keeps the errors from before a manual retry; its
# last `failures` errors of these kinds are those since then.
FAILURES: Final = ("failure", "timeout", "death")

_decode_extra = msgspec.json.Decoder(_Extra).decode
_decode_args = msgspec.json.Decoder(dict[str, Any]).decode


class ClaimedJob:
    """A job as a claim returned it, with the token of that claim."""

    __slots__ = (
        "_extra",
        "_job",
        "args",
        "batch",
        "grants",
        "id",
        "queue",
        "row",
        "task",
        "timeout",
        "token",
        "worker",
    )

    def __init__(self, row: asyncpg.Record, queue: str) -> None:
        self.row = row
        self.queue = queue
        self.id: int = row["id"]
        self.token: UUID = row["token"]
        self.task: str = row["task"]
        self.args: str = row["args"]
        self.timeout: float | None = row["timeout"]
        self.batch: int | None = row["batch"]
        self.worker: str | None = None  # Set when a worker starts the job.
        self.grants: tuple[Any, ...] = ()  # The grants whose slots the job uses.
        self._extra: _Extra | None = None
        self._job: Job | None = None

    @property
    def number(self) -> int:
        return int(self.row["attempt"])

    @property
    def args_version(self) -> int:
        return int(self.row["args_version"])

    @property
    def failures(self) -> int:
        return int(self.row["failures"])

    @property
    def max_attempts(self) -> int:
        return int(self.row["max_attempts"])

    @property
    def losses(self) -> int:
        return int(self.row["losses"])

    @property
    def is_suspect(self) -> bool:
        """Whether an earlier worker was lost while it ran the job, perhaps because of the job."""
        return bool(self.row["suspect"])

    @property
    def deaths(self) -> int:
        """How often a child process died while it ran the job, since the last manual retry."""
        if not self.failures or (extra := self.extra) is None:
            return 0
        errors = [
            error for error in extra.errors or () if error.type != "Overtime"
        ]  # Overtime is a loss.
        failed = [error.kind for error in errors if error.kind in FAILURES]
        return failed[-self.failures :].count("death")

    @property
    def stuck_since(self) -> datetime | None:
        extra = self.extra
        return extra.stuck_since if extra else None

    @property
    def retry(self) -> dict[str, Any] | None:
        extra = self.extra
        return extra.retry if extra else None

    @property
    def extra(self) -> _Extra | None:
        if self._extra is None and self.row["extra"] is not None:
            self._extra = _decode_extra(self.row["extra"])
        return self._extra

    @property
    def public_job(self) -> Job:
        """The job as handlers and hooks see it. It is built on first use."""
        if self._job is None:
            self._job = self._build()
        return self._job

    def _build(self) -> Job:
        row, extra = self.row, self.extra or _Extra(run_at=self.row["created_at"])
        lane, limits = split_lane(row["lane"])
        errors, earlier_ends = split_errors(extra.errors or ())
        return Job(
            id=str(self.id),
            task=self.task,
            state="running",
            queue=self.queue,
            lane=lane,
            limits=limits,
            priority=row["priority"],
            tenant=row["tenant"],
            subject=extra.subject,
            requested_by=extra.requested_by,
            tags=extra.tags or (),
            attempt=row["attempt"],
            failures=row["failures"],
            losses=row["losses"],
            max_attempts=row["max_attempts"],
            timeout=self.timeout,
            retry=extra.retry,
            worker=self.worker,
            args=_decode_args(self.args),
            args_version=row["args_version"],
            meta=extra.meta or {},
            created_at=row["created_at"],
            run_at=extra.run_at,
            ready_at=row["ready_at"],
            deadline=extra.deadline,
            stuck_since=extra.stuck_since,
            batch=_text(self.batch),
            workflow=_text(extra.workflow),
            step=extra.step,
            unique_key=extra.unique_key,
            errors=errors,
            earlier_ends=earlier_ends,
        )


def _text(key: int | None) -> str | None:
    return None if key is None else str(key)
