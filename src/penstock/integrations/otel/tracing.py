"""Spans: `send q` around an enqueue, `process q` around each attempt, `settle q` for its end."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from opentelemetry import context as current
from opentelemetry import trace
from opentelemetry.trace import Link, SpanKind, Status, StatusCode

from penstock.client.tracing import Requests
from penstock.integrations.otel import attributes, carrier
from penstock.integrations.otel.meters import Meters
from penstock.outcome import Transition
from penstock.store import Attempt

NAME: Final = "penstock"
BILLION: Final = 1_000_000_000


class OtelTracing:
    """Follows the jobs of one app. Without an SDK it does nothing, and costs next to that."""

    inside = "penstock.integrations.otel.inside:Inside"

    def __init__(self, meters: Meters, provider: trace.TracerProvider | None = None) -> None:
        self._meters = meters
        self._provider = provider
        self._tracer = trace.get_tracer(NAME, tracer_provider=provider)

    def active(self) -> OtelTracing | None:
        """Itself, if anybody collects spans: the program may set its SDK up at any time."""
        self._meters.listen()
        if self._provider is not None:
            return self
        is_proxy = isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
        return None if is_proxy else self

    @contextmanager
    def sending(self, requests: Requests) -> Iterator[Sent]:
        with self._tracer.start_as_current_span(
            attributes.name("send", {request.options.queue for request in requests}),
            kind=SpanKind.PRODUCER,
            attributes=attributes.of_requests(requests),
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield Sent(carrier.signed(list(requests), current.get_current()), span)
            except BaseException as error:
                _mark(span, type(error).__name__)
                raise

    def carried(self, requests: Requests) -> Requests:
        return carrier.signed(list(requests), current.get_current())

    def running(self, attempt: Attempt) -> OtelTrace:
        return OtelTrace(self._tracer, attempt)

    def ran(self, attempt: Attempt, seconds: float, transition: Transition) -> None:
        now = time.time_ns()
        followed = OtelTrace(self._tracer, attempt, began=now - int(seconds * BILLION))
        followed.concluded(transition)
        followed.end()


class Sent:
    """One enqueue."""

    def __init__(self, requests: Requests, span: trace.Span) -> None:
        self.requests = requests
        self._span = span

    def stored(self, ids: Sequence[int]) -> None:
        if len(ids) == 1:
            self._span.set_attribute(attributes.ID, str(ids[0]))


class OtelTrace:
    """One attempt: a span of its own, in the trace of its creator and linked to that."""

    def __init__(self, tracer: trace.Tracer, attempt: Attempt, began: int | None = None) -> None:
        self._tracer = tracer
        self._attempt = attempt
        self._token: Any = None
        self._ended: int | None = None
        parent = carrier.context_of(attempt)
        creator = trace.get_current_span(parent).get_span_context()
        self._span = tracer.start_span(
            attributes.name("process", {self._attempt.queue}),
            parent,
            kind=SpanKind.CONSUMER,
            attributes=attributes.of_attempt(self._attempt),
            links=[Link(creator)] if creator.is_valid else [],
            start_time=began,
        )
        self._context = trace.set_span_in_context(self._span, parent)

    def __enter__(self) -> OtelTrace:
        self._token = current.attach(self._context)
        return self

    def __exit__(self, *error: object) -> None:
        current.detach(self._token)
        self.end()

    def end(self) -> None:
        self._span.end(self._ended)

    def carried(self, extra: str | None) -> str | None:
        return carrier.carried(extra, self._attempt.row["created_at"], self._context)

    def concluded(self, transition: Transition) -> None:
        self._ended = time.time_ns()
        self._span.set_attributes(attributes.of_outcome(transition))
        if (error := transition.error) is not None and transition.counts_failure:
            _mark(self._span, str(error.get("type", "error")))

    def settled(self) -> None:
        if self._token is None:
            self.end()  # It was stopped before its first step.
        if not self._span.get_span_context().trace_flags.sampled:
            return
        settle = self._tracer.start_span(
            attributes.name("settle", {self._attempt.queue}),
            self._context,
            kind=SpanKind.CLIENT,
            attributes=attributes.of_settle(self._attempt),
            start_time=self._ended,
        )
        settle.end()


def _mark(span: trace.Span, kind: str) -> None:
    """Say that it failed, by the error's type: a message may hold what no trace should."""
    span.set_attribute(attributes.ERROR, kind)
    span.set_status(Status(StatusCode.ERROR, kind))
