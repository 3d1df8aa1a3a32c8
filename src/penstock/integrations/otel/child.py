"""In a child process: the worker has the span of the attempt, what is begun here is below it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from opentelemetry import context as current

from penstock.connect.tracing import Requests
from penstock.integrations.otel import tracing
from penstock.integrations.otel.metrics import Meters
from penstock.integrations.otel.tracing import OtelTracing, Sent
from penstock.outcome import Transition
from penstock.store import ClaimedJob
from penstock.telemetry import Events


class Inside:
    """Follows the attempts that a child runs, without spans of its own."""

    inside = "penstock.integrations.otel.child:Inside"

    def __init__(self) -> None:
        self._client = OtelTracing(Meters(Events()))

    def active(self) -> Inside:
        return self

    def sending(self, requests: Requests) -> AbstractContextManager[Sent]:
        return self._client.sending(requests)

    def carried(self, requests: Requests) -> Requests:
        return self._client.carried(requests)

    def running(self, job: ClaimedJob) -> Below:
        return Below(job)

    def ran(self, job: ClaimedJob, seconds: float, transition: Transition) -> None: ...


class Below:
    """The worker's span, as what surrounds the handler."""

    def __init__(self, job: ClaimedJob) -> None:
        self._context = tracing.context_of(job)
        self._token: Any = None

    def __enter__(self) -> Below:
        self._token = current.attach(self._context)
        return self

    def __exit__(self, *error: object) -> None:
        current.detach(self._token)

    def carried(self, extra: str | None) -> str | None:
        return extra

    def concluded(self, transition: Transition) -> None: ...

    def settled(self) -> None: ...
