"""OpenTelemetry: traces from an enqueue through every attempt of its job, and metrics.

    from penstock.integrations.otel import instrument

    app = Penstock()
    instrument(app)

It needs the extra `otel`, and the SDK that your program sets up; without one nothing is recorded.
"""

from penstock.wording import how_to_install

try:
    from penstock.integrations.otel.tracing import instrument
except ModuleNotFoundError as error:
    if error.name is None or not error.name.startswith("opentelemetry"):
        raise
    told = f"penstock.integrations.otel needs OpenTelemetry's API: {how_to_install('otel')}."
    raise ModuleNotFoundError(told, name=error.name) from error

__all__ = ["instrument"]
