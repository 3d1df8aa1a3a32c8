"""Healthy, degraded or down: a word for monitoring, its thresholds, and reasons for people."""

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

HEALTH = "PENSTOCK_HEALTH"


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Seconds, shares from 0 to 1, and numbers of jobs or workers.

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
        """The defaults, but for what PENSTOCK_HEALTH says: `error_rate_down=0.3,dead_hourly=10`."""
        given = environment.get(HEALTH, "")
        values: dict[str, Any] = dict(_read(part) for part in given.split(",") if part.strip())
        return cls(**values)


def _read(part: str) -> tuple[str, float]:
    name, _, text = (each.strip() for each in part.partition("="))
    names = {each.name for each in fields(Thresholds)}
    if name not in names:
        raise ConfigError(HEALTH, part, f"one of {', '.join(sorted(names))}, as name=number")
    try:
        return name, float(text)
    except ValueError:
        raise ConfigError(HEALTH, part, f"{name}=a number") from None


Status = Literal["healthy", "degraded", "down"]
ORDER: tuple[Status, ...] = ("healthy", "degraded", "down")


class Cause(Struct, frozen=True, kw_only=True):
    """What speaks against health: a value that has reached its threshold."""

    check: str
    status: Status
    told: str
    value: float
    threshold: float


class Health(Struct, frozen=True, kw_only=True):
    """How the queue is; the worst cause decides."""

    status: Status
    causes: tuple[Cause, ...]
    pending: Count
    """Jobs that are ready, scheduled or blocked."""
    running: Count
    workers: int
    """Those that are alive."""
    mean_seconds: float | None
    """How long a job's last attempt took on average, in the last hour."""
    error_rate: float | None
    """The part that failed of what completed or failed, in the window."""
    per_hour: float
    """Jobs that ended in the last hour."""
    last_processed: datetime | None
    """When a job last ended; None if none did in a day."""
    latency: float
    """How many seconds the database took for the cheapest question."""
    queues_left_out: Count = Count(0)
    """How many queues were not looked at, because there are too many; the least busy ones."""
    workers_left_out: int = 0
    """Workers that are alive and were not looked at."""


class Seen(Struct, frozen=True, kw_only=True):
    """What a judgement is based on."""

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
        """The queues with ready jobs that are meant to run now."""
        return [
            queue
            for queue in self.queues
            if queue.waited is not None and not queue.is_paused and queue.window.is_open
        ]


def health_of(seen: Seen, limits: Thresholds) -> Health:
    """The judgement, with the numbers."""
    causes = causes_of(seen, limits)
    counts = [(queue.ready, queue.scheduled, queue.blocked) for queue in seen.queues]
    return Health(
        status=worst(causes),
        causes=causes,
        pending=Count.sum(count for some in counts for count in some),
        running=Count.sum(queue.running for queue in seen.queues),
        workers=len(seen.alive) + seen.living_left_out,
        mean_seconds=seen.hour.total.mean,
        error_rate=seen.recent.total.failure_rate,
        per_hour=seen.hour.total.per_second * 3600,
        last_processed=seen.day.total.last_at,
        latency=seen.latency,
        queues_left_out=seen.queues_left_out,
        workers_left_out=seen.living_left_out,
    )


def unreachable(why: str, limits: Thresholds) -> Health:
    """How a queue is whose database does not answer: nothing else can be known."""
    told = f"The database does not answer: {why}"
    cause = Cause(
        check="database", status="down", told=told, value=0.0, threshold=limits.latency_down
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
    return max((cause.status for cause in causes), key=ORDER.index, default="healthy")


def causes_of(seen: Seen, limits: Thresholds) -> tuple[Cause, ...]:
    """All that has reached its threshold, the worst first."""
    causes = (
        *_latency(seen, limits),
        *_unserved(seen, limits),
        *_lost_workers(seen, limits),
        *_unwritten(seen),
        *_oldest_ready(seen, limits),
        *_error_rate(seen, limits),
        *_dead(seen, limits),
    )
    return tuple(sorted(causes, key=_badness, reverse=True))


def _badness(cause: Cause) -> tuple[int, float]:
    return ORDER.index(cause.status), cause.value / cause.threshold if cause.threshold else 0.0


def _latency(seen: Seen, limits: Thresholds) -> Iterator[Cause]:
    told = f"The database takes {span(seen.latency)} for the cheapest question."
    yield from _stepped(
        "database", told, seen.latency, limits.latency_degraded, limits.latency_down
    )


def _unserved(seen: Seen, limits: Thresholds) -> Iterator[Cause]:
    """Down if there is no worker at all; with some, only a part is held up."""
    for queue in seen.waiting:
        waited = queue.waited or 0.0
        if queue.workers or waited < limits.unserved:
            continue
        yield Cause(
            check="unserved",
            status="degraded" if seen.alive else "down",
            told=f"The queue {queue.name} has {queue.ready} ready, and {_nobody(seen)} serves it; "
            f"the oldest has waited for {span(waited)}.",
            value=waited,
            threshold=limits.unserved,
        )


def _nobody(seen: Seen) -> str:
    if not seen.living_left_out:
        return "no worker"
    return f"none of the {len(seen.alive):,} workers that were looked at"


def _lost_workers(seen: Seen, limits: Thresholds) -> Iterator[Cause]:
    lost = [worker.name for worker in seen.workers if not worker.is_alive]
    if limits.lost_workers and len(lost) >= limits.lost_workers:
        yield Cause(
            check="lost-workers",
            status="degraded",
            told=f"{counted(len(lost), 'worker')} stopped renewing the lease without giving it "
            f"back: {listed(lost)}.",
            value=len(lost),
            threshold=limits.lost_workers,
        )


def _unwritten(seen: Seen) -> Iterator[Cause]:
    """Down if no worker can end a job; with some that can, only a part is held up."""
    held = [(worker, worker.unwritten) for worker in seen.alive if worker.unwritten is not None]
    none_claims = sum(not unwritten.is_claiming for _, unwritten in held) == len(seen.alive)
    for worker, unwritten in held:
        meanwhile = "goes on with others" if unwritten.is_claiming else "claims none meanwhile"
        yield Cause(
            check="unwritten",
            status="down" if none_claims else "degraded",
            told=f"The worker {worker.name} cannot write the outcomes of "
            f"{counted(unwritten.jobs, 'job')}, and {meanwhile}: {unwritten.message}.",
            value=unwritten.jobs,
            threshold=1.0,
        )


def _oldest_ready(seen: Seen, limits: Thresholds) -> Iterator[Cause]:
    for queue in seen.waiting:
        waited = queue.waited or 0.0
        told = f"In the queue {queue.name} a job has been ready for {span(waited)}."
        yield from _stepped(
            "oldest-ready", told, waited, limits.oldest_ready_degraded, limits.oldest_ready_down
        )


def _error_rate(seen: Seen, limits: Thresholds) -> Iterator[Cause]:
    total = seen.recent.total
    tried = total.completed + total.failed
    if total.failure_rate is None or tried < limits.error_rate_least or not total.failed:
        return
    told = (
        f"{total.failure_rate:.0%} of {counted(tried, 'job')} failed in the last "
        f"{span(seen.recent.covered)}."
    )
    yield from _stepped(
        "error-rate", told, total.failure_rate, limits.error_rate_degraded, limits.error_rate_down
    )


def _dead(seen: Seen, limits: Thresholds) -> Iterator[Cause]:
    hour = seen.hour
    # Where so much ended that not all of it was read, the rest is taken to be like it.
    failed = hour.total.failed * max(1.0, hour.window / hour.covered if hour.covered > 0 else 1.0)
    if limits.dead_hourly and failed >= limits.dead_hourly:
        yield Cause(
            check="dead-letters",
            status="degraded",
            told=f"{counted(round(failed), 'job')} became dead letters in the last hour.",
            value=failed,
            threshold=limits.dead_hourly,
        )


def _stepped(check: str, told: str, value: float, degraded: float, down: float) -> Iterator[Cause]:
    if value < degraded:
        return
    status: Status = "down" if value >= down else "degraded"
    yield Cause(
        check=check,
        status=status,
        told=told,
        value=value,
        threshold=down if status == "down" else degraded,
    )
