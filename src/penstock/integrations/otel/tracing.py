"""Spans: `send q` around an enqueue, `process q` around each attempt, `settle q` for its end."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from opentelemetry import context as current
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, SpanKind, Status, StatusCode

from penstock.client.tracing import Requests
from penstock.integrations.otel import attributes, carrier
from penstock.outcome import Transition
from penstock.store import Attempt

NAME: Final = "penstock"
BILLION: Final = 1_000_000_000


class OtelTracing:
    """Follows the jobs of one app. Without an SDK it does nothing, and costs next to that."""

    inside = "penstock.integrations.otel.inside:Inside"

    def __init__(self, provider: trace.TracerProvider | None = None) -> None:
        self._provider = provider
        self._tracer = trace.get_tracer(NAME, tracer_provider=provider)

    @property
    def is_on(self) -> bool:
        """Whether anybody collects spans: the program may set its SDK up at any time."""
        if self._provider is not None:
            return True
        return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)

    @contextmanager
    def sending(self, requests: Requests) -> Iterator[Sent]:
        if not self.is_on:
            yield Sent(requests, None)
            return
        with self._tracer.start_as_current_span(
            attributes.name("send", {request.options.queue for request in requests}),
            kind=SpanKind.PRODUCER,
            attributes=attributes.of_requests(requests),
        ) as span:
            yield Sent(carrier.signed(list(requests), current.get_current()), span)

    def carried(self, requests: Requests) -> Requests:
        return carrier.signed(list(requests), current.get_current()) if self.is_on else requests

    def running(self, attempt: Attempt) -> OtelTrace:
        return OtelTrace(self._tracer if self.is_on else None, attempt)

    def ran(self, attempt: Attempt, seconds: float, transition: Transition) -> None:
        if not self.is_on:
            return
        now = time.time_ns()
        followed = OtelTrace(self._tracer, attempt, began=now - int(seconds * BILLION))
        followed.concluded(transition)
        followed.end()


class Sent:
    """One enqueue."""

    def __init__(self, requests: Requests, span: trace.Span | None) -> None:
        self.requests = requests
        self._span = span

    def stored(self, ids: Sequence[int]) -> None:
        if self._span is not None and len(ids) == 1:
            self._span.set_attribute(attributes.ID, str(ids[0]))


class OtelTrace:
    """One attempt: a span of its own, in the trace of its creator and linked to that."""

    def __init__(
        self, tracer: trace.Tracer | None, attempt: Attempt, began: int | None = None
    ) -> None:
        self._tracer = tracer
        self._attempt = attempt
        self._token: Any = None
        self._ended: int | None = None
        self._context = Context()
        self._span: trace.Span = trace.INVALID_SPAN
        if tracer is not None:
            self._begin(tracer, began)

    def _begin(self, tracer: trace.Tracer, began: int | None) -> None:
        parent = carrier.context_of(self._attempt)
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
        if self._tracer is not None:
            self._token = current.attach(self._context)
        return self

    def __exit__(self, *error: object) -> None:
        if self._token is not None:
            current.detach(self._token)
        self.end()

    def end(self) -> None:
        self._span.end(self._ended)

    def carried(self, extra: str | None) -> str | None:
        if self._tracer is None:
            return extra
        return carrier.carried(extra, self._attempt.row["created_at"], self._context)

    def concluded(self, transition: Transition) -> None:
        self._ended = time.time_ns()
        self._span.set_attributes(attributes.of_outcome(transition))
        if (error := transition.error) is not None and transition.counts_failure:
            kind = str(error.get("type", "error"))
            self._span.set_attribute(attributes.ERROR, kind)
            # Not the message: it may hold what no trace should.
            self._span.set_status(Status(StatusCode.ERROR, kind))

    def settled(self) -> None:
        if self._tracer is None or not self._span.get_span_context().trace_flags.sampled:
            return
        settle = self._tracer.start_span(
            attributes.name("settle", {self._attempt.queue}),
            self._context,
            kind=SpanKind.CLIENT,
            attributes=attributes.of_settle(self._attempt),
            start_time=self._ended,
        )
        settle.end()
