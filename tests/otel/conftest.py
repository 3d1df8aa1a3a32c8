"""An app whose spans and metrics are kept in memory."""

from collections.abc import AsyncIterator

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Tracer

from penstock import Penstock
from penstock.integrations.otel import instrument
from tests.fixtures.database import Database


class Telemetry:
    """What an SDK has collected."""

    def __init__(self) -> None:
        self._spans = InMemorySpanExporter()
        self.traces = TracerProvider()
        self.traces.add_span_processor(SimpleSpanProcessor(self._spans))
        self._reader = InMemoryMetricReader()
        self.meters = MeterProvider([self._reader])

    @property
    def tracer(self) -> Tracer:
        return self.traces.get_tracer("test")

    def spans(self, name: str) -> list[ReadableSpan]:
        """Those that have ended, in the order of their end."""
        return [span for span in self._spans.get_finished_spans() if span.name == name]

    def span(self, name: str) -> ReadableSpan:
        [found] = self.spans(name)
        return found

    def points(self, name: str) -> dict[tuple[tuple[str, str], ...], float]:
        """A metric by its attributes: the value of a counter, how often a histogram was told."""
        data = self._reader.get_metrics_data()
        return {
            tuple(sorted((key, str(value)) for key, value in (point.attributes or {}).items())): (
                point.value if isinstance(point, NumberDataPoint) else point.count
            )
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        }

    def close(self) -> None:
        self.traces.shutdown()
        self.meters.shutdown()


@pytest.fixture
async def telemetry() -> AsyncIterator[Telemetry]:
    collected = Telemetry()
    yield collected
    collected.close()


@pytest.fixture
async def app(database: Database, telemetry: Telemetry) -> AsyncIterator[Penstock]:
    """An open app without tasks, which is followed."""
    app = Penstock(database.url)
    instrument(app, tracer_provider=telemetry.traces, meter_provider=telemetry.meters)
    async with app:
        yield app
