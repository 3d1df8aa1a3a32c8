"""Judge the health of the queue: a status for monitoring, with causes in sentences."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from penstock.errors import ConfigError
from penstock.insights.counts import Count
from penstock.insights.queues import QueueInsight
from penstock.insights.throughput import Throughput
from penstock.insights.workers import WorkerInsight
from penstock.wording import counted, listed, span

THRESHOLDS_VARIABLE = "PENSTOCK_HEALTH"


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The values at which a queue counts as degraded or down.

    They are seconds, shares from 0 to 1, and numbers of jobs or workers.

    Thresholds(oldest_ready_degraded=60, error_rate_down=0.3)
    """

    unserved: float = 30.0
    oldest_ready_degraded: float = 300.0
    oldest_ready_down: float = 3600.0
    window: float = 900.0
    error_rate_least: int = 20
    error_rate_degraded: float = 0.1
    error_rate_down: float = 0.5
    dead_hourly: int = 100
    lost_workers: int = 1
    latency_degraded: float = 0.5
    latency_down: float = 5.0

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
                raise ConfigError(each.name, value, "a number from 0 on")
        if not 1 <= self.window <= 7 * 86_400:
            raise ConfigError("window", self.window, "1 second to 7 days")
        for name in ("oldest_ready", "error_rate", "latency"):
            degraded, down = getattr(self, f"{name}_degraded"), getattr(self, f"{name}_down")
            if down < degraded:
                raise ConfigError(f"{name}_down", down, f"at least {name}_degraded, {degraded}")

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ) -> Thresholds:
        """Return the defaults, changed by PENSTOCK_HEALTH.

        Its value is a list such as `error_rate_down=0.3,dead_hourly=10`.
        """
        text = environment.get(THRESHOLDS_VARIABLE, "")
        values: dict[str, Any] = dict(_parse(part) for part in text.split(",") if part.strip())
        return cls(**values)


def _parse(part: str) -> tuple[str, float]:
    name, _, text = (each.strip() for each in part.partition("="))
    names = {each.name for each in fields(Thresholds)}
    if name not in names:
        allowed = f"one of {', '.join(sorted(names))}, as name=number"
        raise ConfigError(THRESHOLDS_VARIABLE, part, allowed)
    try:
        return name, float(text)
    except ValueError:
        raise ConfigError(THRESHOLDS_VARIABLE, part, f"{name}=a number") from None


Status = Literal["healthy", "degraded", "down"]
STATUSES: tuple[Status, ...] = ("healthy", "degraded", "down")


class Cause(Struct, frozen=True, kw_only=True):
    """A value that has reached a threshold, so that the queue is degraded or down.

    `told` explains the cause in a sentence.
    """

    check: str
    status: Status
    told: str
    value: float
    threshold: float


class Health(Struct, frozen=True, kw_only=True):
    """The health of the queue. `status` is that of the worst cause."""

    status: Status
    causes: tuple[Cause, ...]
    pending: Count
    """Jobs that are ready, scheduled or blocked."""
    running: Count
    workers: int
    """Workers that are alive."""
    mean_seconds: float | None
    """Seconds that a job's last attempt took on average, in the last hour."""
    error_rate: float | None
    """The share that failed of the jobs that completed or failed in the window."""
    per_hour: float
    """Jobs that ended in the last hour."""
    last_processed: datetime | None
    """When a job last ended; None if none did in a day."""
    latency: float
    """How many seconds the database took for the cheapest query."""
    queues_left_out: Count = Count(0)
    """How many queues were not examined because there are too many. These are the least busy."""
    workers_left_out: int = 0
    """How many living workers were not examined."""


class HealthFacts(Struct, frozen=True, kw_only=True):
    """The facts from the database by which the health of the queue is judged."""

    latency: float
    queues: tuple[QueueInsight, ...]
    queues_left_out: Count
    workers: tuple[WorkerInsight, ...]
    living_left_out: int = 0
    recent: Throughput
    hour: Throughput
    day: Throughput

    @property
    def alive(self) -> list[WorkerInsight]:
        return [worker for worker in self.workers if worker.is_alive]

    @property
    def waiting(self) -> list[QueueInsight]:
        """The queues with ready jobs that are neither paused nor outside their windows."""
        return [
            queue
            for queue in self.queues
            if queue.waited is not None and not queue.is_paused and queue.window.is_open
        ]


def health_of(facts: HealthFacts, thresholds: Thresholds) -> Health:
    """Judge the health of the queue by facts and thresholds."""
    causes = causes_of(facts, thresholds)
    counts = [(queue.ready, queue.scheduled, queue.blocked) for queue in facts.queues]
    return Health(
        status=worst(causes),
        causes=causes,
        pending=Count.sum(count for queue_counts in counts for count in queue_counts),
        running=Count.sum(queue.running for queue in facts.queues),
        workers=len(facts.alive) + facts.living_left_out,
        mean_seconds=facts.hour.total.mean,
        error_rate=facts.recent.total.failure_rate,
        per_hour=facts.hour.total.per_second * 3600,
        last_processed=facts.day.total.last_at,
        latency=facts.latency,
        queues_left_out=facts.queues_left_out,
        workers_left_out=facts.living_left_out,
    )


def unreachable(why: str, thresholds: Thresholds) -> Health:
    """Return the health to report while the database does not answer and all else is unknown."""
    message = f"The database does not answer: {why}"
    cause = Cause(
        check="database", status="down", told=message, value=0.0, threshold=thresholds.latency_down
    )
    return Health(
        status="down",
        causes=(cause,),
        pending=Count(0, False),
        running=Count(0, False),
        workers=0,
        mean_seconds=None,
        error_rate=None,
        per_hour=0.0,
        last_processed=None,
        latency=0.0,
    )


def worst(causes: Sequence[Cause]) -> Status:
    return max((cause.status for cause in causes), key=STATUSES.index, default="healthy")


def causes_of(facts: HealthFacts, thresholds: Thresholds) -> tuple[Cause, ...]:
    """Return a cause for each value that has reached its threshold, the worst first."""
    causes = (
        *_latency(facts, thresholds),
        *_unserved(facts, thresholds),
        *_lost_workers(facts, thresholds),
        *_unwritten(facts),
        *_oldest_ready(facts, thresholds),
        *_error_rate(facts, thresholds),
        *_dead_letters(facts, thresholds),
    )
    return tuple(sorted(causes, key=_severity, reverse=True))


def _severity(cause: Cause) -> tuple[int, float]:
    return STATUSES.index(cause.status), cause.value / cause.threshold if cause.threshold else 0.0


def _latency(facts: HealthFacts, thresholds: Thresholds) -> Iterator[Cause]:
    message = f"The database takes {span(facts.latency)} for the cheapest question."
    yield from _graded_cause(
        "database", message, facts.latency, thresholds.latency_degraded, thresholds.latency_down
    )


def _unserved(facts: HealthFacts, thresholds: Thresholds) -> Iterator[Cause]:
    """Yield a cause for each queue whose ready jobs no worker serves.

    Its status is `down` if no worker at all is alive, else `degraded`.
    """
    for queue in facts.waiting:
        waited = queue.waited or 0.0
        if queue.workers or waited < thresholds.unserved:
            continue
        yield Cause(
            check="unserved",
            status="degraded" if facts.alive else "down",
            told=f"The queue {queue.name} has {queue.ready} ready, and {_no_worker(facts)} serves "
            f"it; the oldest has waited for {span(waited)}.",
            value=waited,
            threshold=thresholds.unserved,
        )


def _no_worker(facts: HealthFacts) -> str:
    if not facts.living_left_out:
        return "no worker"
    return f"none of the {len(facts.alive):,} workers that were looked at"


def _lost_workers(facts: HealthFacts, thresholds: Thresholds) -> Iterator[Cause]:
    lost = [worker.name for worker in facts.workers if not worker.is_alive]
    if thresholds.lost_workers and len(lost) >= thresholds.lost_workers:
        yield Cause(
            check="lost-workers",
            status="degraded",
            told=f"{counted(len(lost), 'worker')} stopped renewing the lease without giving it "
            f"back: {listed(lost)}.",
            value=len(lost),
            threshold=thresholds.lost_workers,
        )


def _unwritten(facts: HealthFacts) -> Iterator[Cause]:
    """Yield a cause for each worker that cannot write outcomes.

    Its status is `down` if none of the living workers claims jobs, else `degraded`.
    """
    holders = [(worker, worker.unwritten) for worker in facts.alive if worker.unwritten is not None]
    none_claims = sum(not unwritten.is_claiming for _, unwritten in holders) == len(facts.alive)
    for worker, unwritten in holders:
        meanwhile = "goes on with others" if unwritten.is_claiming else "claims none meanwhile"
        yield Cause(
            check="unwritten",
            status="down" if none_claims else "degraded",
            told=f"The worker {worker.name} cannot write the outcomes of "
            f"{counted(unwritten.jobs, 'job')}, and {meanwhile}: {unwritten.message}.",
            value=unwritten.jobs,
            threshold=1.0,
        )


def _oldest_ready(facts: HealthFacts, thresholds: Thresholds) -> Iterator[Cause]:
    for queue in facts.waiting:
        waited = queue.waited or 0.0
        message = f"In the queue {queue.name} a job has been ready for {span(waited)}."
        yield from _graded_cause(
            "oldest-ready",
            message,
            waited,
            thresholds.oldest_ready_degraded,
            thresholds.oldest_ready_down,
        )


def _error_rate(facts: HealthFacts, thresholds: Thresholds) -> Iterator[Cause]:
    total = facts.recent.total
    finished = total.completed + total.failed
    if total.failure_rate is None or finished < thresholds.error_rate_least or not total.failed:
        return
    message = (
        f"{total.failure_rate:.0%} of {counted(finished, 'job')} failed in the last "
        f"{span(facts.recent.covered)}."
    )
    yield from _graded_cause(
        "error-rate",
        message,
        total.failure_rate,
        thresholds.error_rate_degraded,
        thresholds.error_rate_down,
    )


def _dead_letters(facts: HealthFacts, thresholds: Thresholds) -> Iterator[Cause]:
    hour = facts.hour
    # If so many jobs ended that not all were read, the rest is taken to have failed as often.
    failed = hour.total.failed * max(1.0, hour.window / hour.covered if hour.covered > 0 else 1.0)
    if thresholds.dead_hourly and failed >= thresholds.dead_hourly:
        yield Cause(
            check="dead-letters",
            status="degraded",
            told=f"{counted(round(failed), 'job')} became dead letters in the last hour.",
            value=failed,
            threshold=thresholds.dead_hourly,
        )


def _graded_cause(
    check: str, message: str, value: float, degraded: float, down: float
) -> Iterator[Cause]:
    """Yield a cause if a value has reached one of its two thresholds."""
    if value < degraded:
        return
    status: Status = "down" if value >= down else "degraded"
    yield Cause(
        check=check,
        status=status,
        told=message,
        value=value,
        threshold=down if status == "down" else degraded,
    )
