"""What Prometheus scrapes: counts of this process, and gauges that are read from the database."""

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
from penstock.insights.insights import QUEUES
from penstock.job import READY, State
from penstock.labels import OTHER, QueueLabels, select_labelled
from penstock.service.cache import CachedValue
from penstock.telemetry import Events, JobFinished, JobsEnqueued

logger = logging.getLogger("penstock.service")

DURATION_BUCKETS_S: Final = (0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600)


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
            buckets=DURATION_BUCKETS_S,
            registry=registry,
        )
        self._wait = Histogram(
            "penstock_job_wait_seconds",
            "From being ready to the beginning of an attempt in this process.",
            of,
            buckets=DURATION_BUCKETS_S,
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
        self._enqueued.labels(self._labels.label_of(event.queue), event.task).inc(event.count)

    def _on_finished(self, event: JobFinished) -> None:
        of = self._labels.label_of(event.queue), event.task
        self._finished.labels(*of, event.outcome).inc()
        self._duration.labels(*of).observe(event.seconds)
        self._wait.labels(*of).observe(event.waited)


# Two servers that scrape every 15 seconds, and people who look: one question in five seconds.
CACHE_S: Final = 5.0


class QueueSnapshot(Struct, frozen=True):
    """What was seen at one moment; `up` is False if the database could not be asked."""

    up: bool = False
    depths: tuple[Depth, ...] = ()
    workers: int = 0
    declared: frozenset[str] = frozenset()
    """The queues that have settings, or that schedules in the database name."""


class QueueMetrics(Collector):
    """Gauges from one look at the database, which is at most five seconds old."""

    def __init__(self, app: Penstock, registry: CollectorRegistry) -> None:
        self._app = app
        self._fresh = CachedValue(CACHE_S, self._ask)
        self._seen = QueueSnapshot()
        registry.register(self)

    async def look(self) -> bool:
        """Look, if the last time was long ago. Whether the database has answered."""
        self._seen = await self._fresh()
        return self._seen.up

    async def _ask(self) -> QueueSnapshot:
        try:
            insights = await self._app.insights()
            # One more than are shown, to see whether there are more.
            depths = await insights.depths(queues=QUEUES + 1)
            alive = (await insights.worker_page(limit=1)).alive
            settings = {each.name for each in await self._app.queue_settings()}
            schedules = {each.queue for each in await self._app.schedules()}
        except Exception as error:
            logger.warning("The queues could not be looked at for their metrics: %s", error)
            return QueueSnapshot()
        return QueueSnapshot(True, tuple(depths), alive, frozenset(settings | schedules))

    def declared(self) -> set[str]:
        """The queues that always have a label of their own."""
        return self._app.declared_queues | self._seen.declared

    def collect(self) -> Iterator[Metric]:
        seen = self._seen
        yield _database_up(seen.up)
        if not seen.up:
            return
        yield GaugeMetricFamily(
            "penstock_queue_depth_complete",
            f"0 if more than {QUEUES:,} queues have ready jobs: the others are not counted.",
            value=sum(each.state == READY for each in seen.depths) <= QUEUES,
        )
        yield GaugeMetricFamily("penstock_workers", "Workers that are alive.", value=seen.workers)
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
        for each in self._bounded(seen.depths):
            depth.add_metric((each.queue, each.state), each.jobs)
            if each.waited is not None:
                oldest.add_metric((each.queue,), max(each.waited, 0.0))
        yield depth
        yield oldest

    def _bounded(self, depths: Sequence[Depth]) -> list[Depth]:
        """The depths, those of queues beyond the bound together as one."""
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
    """All that is told while the database is away: nobody's key can be checked."""

    def collect(self) -> Iterator[Metric]:
        yield _database_up(False)


def _database_up(is_up: bool) -> Metric:
    told = "Whether the database answered the last look."
    return GaugeMetricFamily("penstock_database_up", told, value=is_up)
