"""What the client answers with."""

from __future__ import annotations

from typing import Any, Generic, TypeAlias, TypeVar

from msgspec import Struct

from penstock.job import FINAL, Job, State

T_co = TypeVar("T_co", covariant=True)


class Enqueued(Struct, Generic[T_co], frozen=True):
    """A job that is durably stored; T is what its handler returns.

    `duplicate` says that nothing was added: its idempotency key, or its unique key, already
    belonged to this job. An enqueue whose answer was lost is repeated, and then the key may belong
    to what the call itself has stored: it counts as a duplicate, too.
    """

    id: str
    duplicate: bool = False


class JobStatus(Struct, frozen=True):
    """Where a job is and how far, in one small value."""

    id: str
    state: State
    reason: str | None = None
    done: float | None = None
    total: float | None = None
    message: str | None = None

    @property
    def is_final(self) -> bool:
        return self.state in FINAL


class Page(Struct, frozen=True):
    """Some jobs, newest first, and what to pass as `after` for the next ones."""

    jobs: tuple[Job, ...]
    after: str | None


JobId: TypeAlias = str | Enqueued[Any] | Job | JobStatus


def id_of(job: JobId) -> str:
    """The id by which a job is named."""
    if isinstance(job, str):
        return job
    if isinstance(job, Enqueued | Job | JobStatus):
        return job.id
    raise TypeError(f"A job is named by its id, a text, or by what enqueue gave; not by {job!r}.")
