"""OpenTelemetry: traces from an enqueue through every attempt of its job, and metrics.

    from penstock.integrations.otel import instrument

    app = Penstock()
    instrument(app)

It needs `pip install penstock[otel]`, and the SDK that your program sets up; without one nothing
is recorded.
"""

from penstock.integrations.otel.instrument import instrument

__all__ = ["instrument"]
