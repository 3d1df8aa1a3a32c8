"""Where those who follow jobs from their enqueue to their end take hold.

An app that nobody follows has none, and pays nothing. OpenTelemetry is one:
`penstock.integrations.otel`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from penstock.outcome import Transition
from penstock.store import ClaimedJob
from penstock.tasks import Request

Requests = Sequence[Request[Any]]


class Sending(Protocol):
    """One enqueue: the requests as they are to be stored, with word of who enqueued them."""

    requests: Requests

    def stored(self, ids: Sequence[int]) -> None: ...


class Trace(Protocol):
    """One attempt; while it is entered, the handler runs."""

    def __enter__(self) -> object: ...
    def __exit__(self, *error: object) -> None: ...

    def carried(self, extra: str | None) -> str | None:
        """What a claim has of the job beside its columns, with word of this attempt: for a child
        process."""
        ...

    def concluded(self, transition: Transition) -> None:
        """What the attempt came to; it is yet to be written."""
        ...

    def settled(self) -> None:
        """It is written."""
        ...


class Tracing(Protocol):
    """Follows the jobs of one app."""

    inside: str
    """Where a child process finds who follows there, as `module:name`; called without arguments."""

    def active(self) -> Tracing | None:
        """Itself, if what it sees goes anywhere; asked at each enqueue and at a worker's start."""
        ...

    def sending(self, requests: Requests) -> AbstractContextManager[Sending]:
        """Around an enqueue."""
        ...

    def carried(self, requests: Requests) -> Requests:
        """Requests for an enqueue that others carry out."""
        ...

    def running(self, job: ClaimedJob) -> Trace:
        """Around an attempt."""
        ...

    def ran(self, job: ClaimedJob, seconds: float, transition: Transition) -> None:
        """An attempt that shared a call with others, after its end."""
        ...
