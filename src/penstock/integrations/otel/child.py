"""Tracing in a child process.

The worker makes the span of an attempt. Spans that the handler makes in the child are below it.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from opentelemetry import context as current

from penstock.connect.tracing import Requests
from penstock.integrations.otel import tracing
from penstock.integrations.otel.metrics import Meters
from penstock.integrations.otel.tracing import OtelTracing, SentJobs
from penstock.outcome import Transition
from penstock.store import ClaimedJob
from penstock.telemetry import Events


class ChildTracing:
    """Traces what handlers do in a child process. It makes no spans of the attempts themselves."""

    inside = "penstock.integrations.otel.child:ChildTracing"

    def __init__(self) -> None:
        self._client = OtelTracing(Meters(Events()))

    def active(self) -> ChildTracing:
        return self

    def sending(self, requests: Requests) -> AbstractContextManager[SentJobs]:
        return self._client.sending(requests)

    def carried(self, requests: Requests) -> Requests:
        return self._client.carried(requests)

    def running(self, job: ClaimedJob) -> ParentContext:
        return ParentContext(job)

    def ran(self, job: ClaimedJob, seconds: float, transition: Transition) -> None: ...


class ParentContext:
    """Makes the worker's span the current one while the handler runs."""

    def __init__(self, job: ClaimedJob) -> None:
        self._context = tracing.context_of(job)
        self._token: Any = None

    def __enter__(self) -> ParentContext:
        self._token = current.attach(self._context)
        return self

    def __exit__(self, *error: object) -> None:
        current.detach(self._token)

    def carried(self, extra: str | None) -> str | None:
        return extra

    def concluded(self, transition: Transition) -> None: ...

    def settled(self) -> None: ...
