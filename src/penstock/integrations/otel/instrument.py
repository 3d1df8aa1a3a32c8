"""Switch OpenTelemetry on for an app."""

from __future__ import annotations

from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from penstock.app import Penstock
from penstock.integrations.otel.meters import Meters
from penstock.integrations.otel.tracing import OtelTracing


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
