"""Spans for an enqueue, each attempt and its settle, joined by the context that a job carries."""

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
    """`send mail`; of several queues at once the verb alone."""
    return f"{verb} {next(iter(queues))}" if len(queues) == 1 else verb


def of_requests(requests: Requests) -> Attributes:
    queues = {request.options.queue for request in requests}
    tasks = {request.task for request in requests}
    found = _of("send", "enqueue")
    if len(queues) == 1:
        found[DESTINATION] = queues.pop()
    if len(tasks) == 1:
        found[TASK] = tasks.pop()
    if len(requests) > 1:
        found[COUNT] = len(requests)
    return found


def of_attempt(job: ClaimedJob) -> Attributes:
    found = _of("process", "process") | _job(job)
    found[TASK] = job.task
    found[ATTEMPT] = job.number
    if tenant := job.row["tenant"]:
        found[TENANT] = tenant
    return found


def of_settle(job: ClaimedJob) -> Attributes:
    return _of("settle", "settle") | _job(job)


def of_outcome(transition: Transition) -> Attributes:
    found: Attributes = {OUTCOME: transition.state}
    if transition.reason is not None:
        found[REASON] = transition.reason
    return found


def _job(job: ClaimedJob) -> Attributes:
    return {DESTINATION: job.queue, ID: str(job.id)}


def _of(operation: str, called: str) -> Attributes:
    return {SYSTEM: "penstock", OPERATION: operation, OPERATION_NAME: called}


KEY: Final = "otel"
# Not the program's own choice: who enqueues and who works may have chosen differently.
_W3C: Final = CompositePropagator([TraceContextTextMapPropagator(), W3CBaggagePropagator()])
_Fields = dict[str, Any]


def context_of(job: ClaimedJob) -> Context:
    """The context in which the job was enqueued, baggage included; empty if it carries none."""
    extra = job.extra
    found = (extra.meta or {}).get(KEY) if extra is not None else None
    # Anybody's SQL may have written it.
    given = found if isinstance(found, dict) else {}
    return _W3C.extract({str(name): str(text) for name, text in given.items()}, Context())


def signed(requests: list[Request[Any]], context: Context) -> list[Request[Any]]:
    """The requests with a context in their metadata. Requests that share options go on to."""
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, context)
    if not carrier:
        return requests
    made: dict[int, Any] = {}
    for request in requests:
        if id(request.options) not in made:
            text = _with(request.options.meta, carrier)
            made[id(request.options)] = msgspec.structs.replace(request.options, meta=text)
    return [
        msgspec.structs.replace(request, options=made[id(request.options)]) for request in requests
    ]


def carried(extra: str | None, created_at: datetime, context: Context) -> str:
    """What a claim has beside a job's columns, with a context in the metadata."""
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, context)
    fields: _Fields = msgspec.json.decode(extra, type=_Fields) if extra else {"run_at": created_at}
    fields["meta"] = {**(fields.get("meta") or {}), KEY: carrier}
    return msgspec.json.encode(fields).decode()


def _with(meta: str | None, carrier: dict[str, str]) -> str:
    fields: _Fields = msgspec.json.decode(meta, type=_Fields) if meta else {}
    return msgspec.json.encode({**fields, KEY: carrier}).decode()


NAME: Final = "penstock"
BILLION: Final = 1_000_000_000


class OtelTracing:
    """Follows the jobs of one app. Without an SDK it does nothing, and costs next to that."""

    inside = "penstock.integrations.otel.child:Inside"

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
            name("send", {request.options.queue for request in requests}),
            kind=SpanKind.PRODUCER,
            attributes=of_requests(requests),
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield Sent(signed(list(requests), current.get_current()), span)
            except BaseException as error:
                _mark(span, type(error).__name__)
                raise

    def carried(self, requests: Requests) -> Requests:
        return signed(list(requests), current.get_current())

    def running(self, job: ClaimedJob) -> OtelTrace:
        return OtelTrace(self._tracer, job)

    def ran(self, job: ClaimedJob, seconds: float, transition: Transition) -> None:
        now = time.time_ns()
        followed = OtelTrace(self._tracer, job, began=now - int(seconds * BILLION))
        followed.concluded(transition)
        followed.end()


class Sent:
    """One enqueue."""

    def __init__(self, requests: Requests, span: trace.Span) -> None:
        self.requests = requests
        self._span = span

    def stored(self, ids: Sequence[int]) -> None:
        if len(ids) == 1:
            self._span.set_attribute(ID, str(ids[0]))


class OtelTrace:
    """One attempt: a span of its own, in the trace of its creator and linked to that."""

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
            attributes=of_attempt(self._job),
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
        return carried(extra, self._job.row["created_at"], self._context)

    def concluded(self, transition: Transition) -> None:
        self._ended = time.time_ns()
        self._span.set_attributes(of_outcome(transition))
        if (error := transition.error) is not None and transition.counts_failure:
            _mark(self._span, str(error.get("type", "error")))

    def settled(self) -> None:
        if self._token is None:
            self.end()  # It was stopped before its first step.
        if not self._span.get_span_context().trace_flags.sampled:
            return
        settle = self._tracer.start_span(
            name("settle", {self._job.queue}),
            self._context,
            kind=SpanKind.CLIENT,
            attributes=of_settle(self._job),
            start_time=self._ended,
        )
        settle.end()


def _mark(span: trace.Span, kind: str) -> None:
    """Say that it failed, by the error's type: a message may hold what no trace should."""
    span.set_attribute(ERROR, kind)
    span.set_status(Status(StatusCode.ERROR, kind))


def instrument(
    app: Penstock,
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> None:
    """Follow the jobs of an app, with the providers given or those that the program has set.

    Call it where the app is made, so that child processes, which import that, do the same. A
    worker that starts before the program has set up its SDK is not followed.
    """
    meters = Meters(app.events, meter_provider, lambda: app.declared_queues)
    app.trace_with(OtelTracing(meters, tracer_provider))
