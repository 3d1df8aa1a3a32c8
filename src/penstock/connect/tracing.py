"""The interface for tracing jobs from their enqueue to their end.

`penstock.integrations.otel` implements it for OpenTelemetry. An app without tracing has no extra
cost.
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
    """A traced enqueue. Store its `requests`, which carry the trace context of the caller."""

    requests: Requests

    def stored(self, ids: Sequence[int]) -> None: ...


class Trace(Protocol):
    """The trace of one attempt. The handler runs inside its context."""

    def __enter__(self) -> object: ...
    def __exit__(self, *error: object) -> None: ...

    def carried(self, extra: str | None) -> str | None:
        """Return the job's `extra` with the trace context of this attempt, for a child process."""
        ...

    def concluded(self, transition: Transition) -> None:
        """Record the outcome of the attempt, before it is written."""
        ...

    def settled(self) -> None:
        """Record that the outcome is written."""
        ...


class Tracing(Protocol):
    """Trace the jobs of one app."""

    inside: str
    """A factory, as `module:name`, that child processes call to trace there."""

    def active(self) -> Tracing | None:
        """Return self if traces are recorded, otherwise None.

        It is called at each enqueue and when a worker starts.
        """
        ...

    def sending(self, requests: Requests) -> AbstractContextManager[Sending]:
        """Trace an enqueue."""
        ...

    def carried(self, requests: Requests) -> Requests:
        """Return the requests with the trace context added, for other code that enqueues them."""
        ...

    def running(self, job: ClaimedJob) -> Trace:
        """Trace an attempt."""
        ...

    def ran(self, job: ClaimedJob, seconds: float, transition: Transition) -> None:
        """Record the trace of an attempt in a micro-batch, after the attempt has ended."""
        ...
