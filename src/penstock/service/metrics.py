"""Collect metrics for Prometheus: counters of this process, and gauges read from the database."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from penstock.app.app import Penstock
from penstock.insights.counts import Depth
from penstock.insights.insights import MAX_QUEUES
from penstock.job import READY, State
from penstock.labels import OTHER, QueueLabels, select_labelled
from penstock.service.cache import CachedValue
from penstock.telemetry import Events, JobFinished, JobsEnqueued

logger = logging.getLogger("penstock.service")

DURATION_BUCKETS_S: Final = (0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600)


class ProcessMetrics:
    """Counts the jobs that this process enqueues and the attempts that it settles.

    Also reports the CPU time, the memory and other resources of the process.
    """

    def __init__(
        self, events: Events, declared: Callable[[], Collection[str]], registry: CollectorRegistry
    ) -> None:
        labels = ("queue", "task")
        self._labels = QueueLabels(declared)
        self._enqueued = Counter(
            "penstock_jobs_enqueued_total",
            "Jobs that this process has enqueued.",
            labels,
            registry=registry,
        )
        self._finished = Counter(
            "penstock_jobs_finished_total",
            "Attempts that this process has settled, by what they came to.",
            (*labels, "outcome"),
            registry=registry,
        )
        self._duration = Histogram(
            "penstock_job_duration_seconds",
            "How long attempts took in this process.",
            labels,
            buckets=DURATION_BUCKETS_S,
            registry=registry,
        )
        self._wait = Histogram(
            "penstock_job_wait_seconds",
            "From being ready to the beginning of an attempt in this process.",
            labels,
            buckets=DURATION_BUCKETS_S,
            registry=registry,
        )
        ProcessCollector(registry=registry)
        self._unsubscribe = [
            events.subscribe(JobsEnqueued, self._on_enqueued),
            events.subscribe(JobFinished, self._on_finished),
        ]

    def close(self) -> None:
        """Stop counting."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        self._unsubscribe.clear()

    def _on_enqueued(self, event: JobsEnqueued) -> None:
        self._enqueued.labels(self._labels.label_of(event.queue), event.task).inc(event.count)

    def _on_finished(self, event: JobFinished) -> None:
        labels = self._labels.label_of(event.queue), event.task
        self._finished.labels(*labels, event.outcome).inc()
        self._duration.labels(*labels).observe(event.seconds)
        self._wait.labels(*labels).observe(event.waited)


# However many servers and people scrape, the database is asked once in five seconds.
CACHE_S: Final = 5.0


class QueueSnapshot(Struct, frozen=True):
    """The state of the queues at one moment. `up` is False if the database could not be read."""

    up: bool = False
    depths: tuple[Depth, ...] = ()
    workers: int = 0
    declared: frozenset[str] = frozenset()
    """The queues that have settings, or that a schedule in the database names."""


class QueueMetrics(Collector):
    """Gauges from a snapshot of the database that is at most five seconds old."""

    def __init__(self, app: Penstock, registry: CollectorRegistry) -> None:
        self._app = app
        self._read = CachedValue(CACHE_S, self._read_database)
        self._snapshot = QueueSnapshot()
        registry.register(self)

    async def refresh(self) -> bool:
        """Read a new snapshot if the last one is too old. Returns whether the database answered."""
        self._snapshot = await self._read()
        return self._snapshot.up

    async def _read_database(self) -> QueueSnapshot:
        try:
            insights = await self._app.insights()
            # Reading one more than are shown tells whether there are more.
            depths = await insights.depths(queues=MAX_QUEUES + 1)
            alive = (await insights.worker_page(limit=1)).alive
            with_settings = {each.name for each in await self._app.queue_settings()}
            with_schedules = {each.queue for each in await self._app.schedules()}
        except Exception as error:
            logger.warning("The metrics of queues could not be read from the database: %s", error)
            return QueueSnapshot()
        return QueueSnapshot(True, tuple(depths), alive, frozenset(with_settings | with_schedules))

    def declared(self) -> set[str]:
        """Return the queues that always have a label of their own."""
        return self._app.declared_queues | self._snapshot.declared

    def collect(self) -> Iterator[Metric]:
        snapshot = self._snapshot
        yield _database_up(snapshot.up)
        if not snapshot.up:
            return
        yield GaugeMetricFamily(
            "penstock_queue_depth_complete",
            f"0 if more than {MAX_QUEUES:,} queues have ready jobs: the others are not counted.",
            value=sum(each.state == READY for each in snapshot.depths) <= MAX_QUEUES,
        )
        yield GaugeMetricFamily(
            "penstock_workers", "Workers that are alive.", value=snapshot.workers
        )
        depth = GaugeMetricFamily(
            "penstock_queue_depth",
            "Jobs that wait or run, counted up to 100,000.",
            labels=("queue", "state"),
        )
        oldest = GaugeMetricFamily(
            "penstock_queue_oldest_ready_age_seconds",
            "For how long the oldest ready job has been ready.",
            labels=("queue",),
        )
        for each in self._bounded(snapshot.depths):
            depth.add_metric((each.queue, each.state), each.jobs)
            if each.waited is not None:
                oldest.add_metric((each.queue,), max(each.waited, 0.0))
        yield depth
        yield oldest

    def _bounded(self, depths: Sequence[Depth]) -> list[Depth]:
        """Return the depths. The queues beyond the bound are added up under one label."""
        named = select_labelled((each.queue for each in depths), self.declared())
        others: dict[State, Depth] = {}
        for each in (each for each in depths if each.queue not in named):
            sum_so_far = others.get(each.state)
            others[each.state] = replace(each, queue=OTHER) if sum_so_far is None else replace(
                sum_so_far,
                jobs=sum_so_far.jobs + each.jobs,
                waited=max((sum_so_far.waited, each.waited), key=lambda age: age or 0.0),
            )  # fmt: skip
        return [each for each in depths if each.queue in named] + list(others.values())


class DatabaseDown(Collector):
    """Collects `penstock_database_up 0`, which is all that is shown while the database is down."""

    def collect(self) -> Iterator[Metric]:
        yield _database_up(False)


def _database_up(is_up: bool) -> Metric:
    description = "Whether the database answered the last look."
    return GaugeMetricFamily("penstock_database_up", description, value=is_up)
