"""Metrics of the jobs that this process enqueues and runs, with the same names as `/metrics`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from opentelemetry import metrics

from penstock.labels import QueueLabels
from penstock.telemetry import Events, JobFinished, JobsEnqueued

BUCKETS_S: Final = (0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600)


class Meters:
    """Counts jobs that were enqueued and finished, and measures how long they waited and ran."""

    def __init__(
        self,
        events: Events,
        provider: metrics.MeterProvider | None = None,
        declared: Callable[[], Collection[str]] = frozenset,
    ) -> None:
        """Count events. Each queue that `declared` returns always has a label of its own."""
        self._events = events
        self._provider = provider
        self._listens = False
        self._labels = QueueLabels(declared)

    def listen(self) -> None:
        """Subscribe to events once the program has set up an SDK, which it may do at any time."""
        if self._listens or not self._is_on:
            return
        self._listens = True
        self._make(metrics.get_meter("penstock", meter_provider=self._provider))
        self._events.subscribe(JobsEnqueued, self._on_enqueued)
        self._events.subscribe(JobFinished, self._on_finished)

    @property
    def _is_on(self) -> bool:
        provider = self._provider or metrics.get_meter_provider()
        # The API's own provider is only a placeholder for that of an SDK.
        return not type(provider).__module__.startswith("opentelemetry.metrics")

    def _make(self, meter: metrics.Meter) -> None:
        self._enqueued = meter.create_counter(
            "penstock.jobs.enqueued", "{job}", "Jobs that this process has enqueued."
        )
        self._finished = meter.create_counter(
            "penstock.jobs.finished", "{attempt}", "Attempts that this process has settled."
        )
        self._duration = meter.create_histogram(
            "penstock.job.duration",
            "s",
            "How long attempts took.",
            explicit_bucket_boundaries_advisory=BUCKETS_S,
        )
        self._wait = meter.create_histogram(
            "penstock.job.wait",
            "s",
            "From being ready to the beginning of an attempt.",
            explicit_bucket_boundaries_advisory=BUCKETS_S,
        )

    def _on_enqueued(self, event: JobsEnqueued) -> None:
        self._enqueued.add(
            event.count, {"queue": self._labels.label_of(event.queue), "task": event.task}
        )

    def _on_finished(self, event: JobFinished) -> None:
        attributes = {"queue": self._labels.label_of(event.queue), "task": event.task}
        self._finished.add(1, {**attributes, "outcome": event.outcome})
        self._duration.record(event.seconds, attributes)
        self._wait.record(event.waited, attributes)
