"""OpenTelemetry: metrics, and traces from an enqueue through all attempts of its job.

    from penstock.integrations.otel import instrument

    app = Penstock()
    instrument(app)

It needs the extra `otel`. Your program sets up the SDK; without one, nothing is recorded.
"""

from penstock.wording import how_to_install

try:
    from penstock.integrations.otel.tracing import instrument
except ModuleNotFoundError as error:
    if error.name is None or not error.name.startswith("opentelemetry"):
        raise
    message = f"penstock.integrations.otel needs OpenTelemetry's API: {how_to_install('otel')}."
    raise ModuleNotFoundError(message, name=error.name) from error

__all__ = ["instrument"]
