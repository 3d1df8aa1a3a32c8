"""Makes spans for enqueueing jobs, for each attempt, and for settling the attempt.

The trace context is stored in the metadata of the job.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final

import msgspec
from opentelemetry import context as current
from opentelemetry import trace
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.trace import Link, SpanKind, Status, StatusCode, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from penstock.app.app import Penstock
from penstock.connect.tracing import Requests
from penstock.integrations.otel.metrics import Meters
from penstock.outcome import Transition
from penstock.store import ClaimedJob
from penstock.tasks import Request

SYSTEM: Final = "messaging.system"
DESTINATION: Final = "messaging.destination.name"
OPERATION: Final = "messaging.operation.type"
OPERATION_NAME: Final = "messaging.operation.name"
ID: Final = "messaging.message.id"
COUNT: Final = "messaging.batch.message_count"
ERROR: Final = "error.type"
TASK: Final = "penstock.task"
TENANT: Final = "penstock.tenant"
ATTEMPT: Final = "penstock.attempt"
OUTCOME: Final = "penstock.state"
REASON: Final = "penstock.reason"

Attributes = dict[str, Any]


def name(verb: str, queues: Collection[str]) -> str:
    """Return a span's name: `send mail`, or only the verb for several queues."""
    return f"{verb} {next(iter(queues))}" if len(queues) == 1 else verb


def enqueue_attributes(requests: Requests) -> Attributes:
    queues = {request.options.queue for request in requests}
    tasks = {request.task for request in requests}
    attributes = _operation("send", "enqueue")
    if len(queues) == 1:
        attributes[DESTINATION] = queues.pop()
    if len(tasks) == 1:
        attributes[TASK] = tasks.pop()
    if len(requests) > 1:
        attributes[COUNT] = len(requests)
    return attributes


def attempt_attributes(job: ClaimedJob) -> Attributes:
    attributes = _operation("process", "process") | _job(job)
    attributes[TASK] = job.task
    attributes[ATTEMPT] = job.number
    if tenant := job.row["tenant"]:
        attributes[TENANT] = tenant
    return attributes


def settle_attributes(job: ClaimedJob) -> Attributes:
    return _operation("settle", "settle") | _job(job)


def outcome_attributes(transition: Transition) -> Attributes:
    attributes: Attributes = {OUTCOME: transition.state}
    if transition.reason is not None:
        attributes[REASON] = transition.reason
    return attributes


def _job(job: ClaimedJob) -> Attributes:
    return {DESTINATION: job.queue, ID: str(job.id)}


def _operation(type_: str, operation_name: str) -> Attributes:
    return {SYSTEM: "penstock", OPERATION: type_, OPERATION_NAME: operation_name}


KEY: Final = "otel"
# The program's own propagator is not used: the enqueuer and the worker may have different ones.
_W3C: Final = CompositePropagator([TraceContextTextMapPropagator(), W3CBaggagePropagator()])
_Fields = dict[str, Any]


def context_of(job: ClaimedJob) -> Context:
    """Return the trace context, with baggage, in which a job was enqueued, or an empty context."""
    extra = job.extra
    value = (extra.meta or {}).get(KEY) if extra is not None else None
    # Anyone's SQL may have written the value.
    carrier = value if isinstance(value, dict) else {}
    return _W3C.extract({str(name): str(text) for name, text in carrier.items()}, Context())


def with_context(requests: list[Request[Any]], context: Context) -> list[Request[Any]]:
    """Return the requests with a trace context in their metadata.

    Requests that share an options object also share an options object in the result.
    """
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, context)
    if not carrier:
        return requests
    options_by_id: dict[int, Any] = {}
    for request in requests:
        key = id(request.options)
        if key not in options_by_id:
            meta = _add_to_meta(request.options.meta, carrier)
            options_by_id[key] = msgspec.structs.replace(request.options, meta=meta)
    return [
        msgspec.structs.replace(request, options=options_by_id[id(request.options)])
        for request in requests
    ]


def add_to_extra(extra: str | None, created_at: datetime, context: Context) -> str:
    """Return the extra fields of a claimed job, with a trace context in their metadata."""
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, context)
    fields: _Fields = msgspec.json.decode(extra, type=_Fields) if extra else {"run_at": created_at}
    fields["meta"] = {**(fields.get("meta") or {}), KEY: carrier}
    return msgspec.json.encode(fields).decode()


def _add_to_meta(meta: str | None, carrier: dict[str, str]) -> str:
    fields: _Fields = msgspec.json.decode(meta, type=_Fields) if meta else {}
    return msgspec.json.encode({**fields, KEY: carrier}).decode()


NAME: Final = "penstock"
NS_PER_S: Final = 1_000_000_000


class OtelTracing:
    """Traces the jobs of one app. Without an SDK it does nothing, and costs next to nothing."""

    inside = "penstock.integrations.otel.child:ChildTracing"

    def __init__(self, meters: Meters, provider: trace.TracerProvider | None = None) -> None:
        self._meters = meters
        self._provider = provider
        self._tracer = trace.get_tracer(NAME, tracer_provider=provider)

    def active(self) -> OtelTracing | None:
        """Return this object if the program has set up an SDK, else None.

        A program may set up its SDK at any time, so clients ask at each enqueue. A worker asks when
        it starts.
        """
        self._meters.listen()
        if self._provider is not None:
            return self
        is_proxy = isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
        return None if is_proxy else self

    @contextmanager
    def sending(self, requests: Requests) -> Iterator[SentJobs]:
        with self._tracer.start_as_current_span(
            name("send", {request.options.queue for request in requests}),
            kind=SpanKind.PRODUCER,
            attributes=enqueue_attributes(requests),
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield SentJobs(with_context(list(requests), current.get_current()), span)
            except BaseException as error:
                _mark_failed(span, type(error).__name__)
                raise

    def carried(self, requests: Requests) -> Requests:
        return with_context(list(requests), current.get_current())

    def running(self, job: ClaimedJob) -> OtelTrace:
        return OtelTrace(self._tracer, job)

    def ran(self, job: ClaimedJob, seconds: float, transition: Transition) -> None:
        now = time.time_ns()
        followed = OtelTrace(self._tracer, job, began=now - int(seconds * NS_PER_S))
        followed.concluded(transition)
        followed.end()


class SentJobs:
    """The span of one enqueue, and the requests with the trace context in their metadata."""

    def __init__(self, requests: Requests, span: trace.Span) -> None:
        self.requests = requests
        self._span = span

    def stored(self, ids: Sequence[int]) -> None:
        if len(ids) == 1:
            self._span.set_attribute(ID, str(ids[0]))


class OtelTrace:
    """The span of one attempt.

    The span belongs to the trace of the enqueue, and links to the span of the enqueue.
    """

    def __init__(self, tracer: trace.Tracer, job: ClaimedJob, began: int | None = None) -> None:
        self._tracer = tracer
        self._job = job
        self._token: Any = None
        self._ended: int | None = None
        parent = context_of(job)
        creator = trace.get_current_span(parent).get_span_context()
        self._span = tracer.start_span(
            name("process", {self._job.queue}),
            parent,
            kind=SpanKind.CONSUMER,
            attributes=attempt_attributes(self._job),
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
        return add_to_extra(extra, self._job.row["created_at"], self._context)

    def concluded(self, transition: Transition) -> None:
        self._ended = time.time_ns()
        self._span.set_attributes(outcome_attributes(transition))
        if (error := transition.error) is not None and transition.counts_failure:
            _mark_failed(self._span, str(error.get("type", "error")))

    def settled(self) -> None:
        if self._token is None:
            self.end()  # The attempt was stopped before its handler began.
        if not self._span.get_span_context().trace_flags.sampled:
            return
        settle = self._tracer.start_span(
            name("settle", {self._job.queue}),
            self._context,
            kind=SpanKind.CLIENT,
            attributes=settle_attributes(self._job),
            start_time=self._ended,
        )
        settle.end()


def _mark_failed(span: trace.Span, kind: str) -> None:
    """Mark a span as failed with the type of an error, but without the error's message.

    The message may hold data that no trace should have.
    """
    span.set_attribute(ERROR, kind)
    span.set_status(Status(StatusCode.ERROR, kind))


def instrument(
    app: Penstock,
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> None:
    """Record traces and metrics of an app's jobs. By default, the program's providers are used.

    Call it in the module that makes the app, because child processes import that module too. Set up
    the SDK before a worker starts: otherwise its attempts are not traced.
    """
    meters = Meters(app.events, meter_provider, lambda: app.declared_queues)
    app.trace_with(OtelTracing(meters, tracer_provider))
