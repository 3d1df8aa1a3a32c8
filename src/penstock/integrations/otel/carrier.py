"""The context of a trace, as a job carries it in its metadata: in W3C's words, under one key."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from penstock.store import Attempt
from penstock.tasks import Request

KEY: Final = "otel"
# Not the program's own choice: who enqueues and who works may have chosen differently.
_W3C: Final = CompositePropagator([TraceContextTextMapPropagator(), W3CBaggagePropagator()])
_Fields = dict[str, Any]


def context_of(attempt: Attempt) -> Context:
    """The context in which the job was enqueued, baggage included; empty if it carries none."""
    extra = attempt.extra
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
