"""What this process did, counted as it happens."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector

from penstock.events import Events, JobFinished, JobsEnqueued
from penstock.labels import QueueLabels

SECONDS: Final = (0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600)


class ProcessMetrics:
    """Jobs that were enqueued here, attempts that were settled here, and what the process takes."""

    def __init__(
        self, events: Events, declared: Callable[[], Collection[str]], registry: CollectorRegistry
    ) -> None:
        of = ("queue", "task")
        self._labels = QueueLabels(declared)
        self._enqueued = Counter(
            "penstock_jobs_enqueued_total",
            "Jobs that this process has enqueued.",
            of,
            registry=registry,
        )
        self._finished = Counter(
            "penstock_jobs_finished_total",
            "Attempts that this process has settled, by what they came to.",
            (*of, "outcome"),
            registry=registry,
        )
        self._duration = Histogram(
            "penstock_job_duration_seconds",
            "How long attempts took in this process.",
            of,
            buckets=SECONDS,
            registry=registry,
        )
        self._wait = Histogram(
            "penstock_job_wait_seconds",
            "From being ready to the beginning of an attempt in this process.",
            of,
            buckets=SECONDS,
            registry=registry,
        )
        ProcessCollector(registry=registry)
        self._ends = [
            events.subscribe(JobsEnqueued, self._on_enqueued),
            events.subscribe(JobFinished, self._on_finished),
        ]

    def close(self) -> None:
        """Count no more."""
        for end in self._ends:
            end()
        self._ends.clear()

    def _on_enqueued(self, event: JobsEnqueued) -> None:
        self._enqueued.labels(self._labels.of(event.queue), event.task).inc(event.count)

    def _on_finished(self, event: JobFinished) -> None:
        of = self._labels.of(event.queue), event.task
        self._finished.labels(*of, event.outcome).inc()
        self._duration.labels(*of).observe(event.seconds)
        self._wait.labels(*of).observe(event.waited)
