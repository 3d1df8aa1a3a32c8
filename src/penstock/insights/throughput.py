"""Describe how many jobs ended lately, how they ended, and how long they took."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import groupby

from msgspec import Struct

from penstock.store.insights import Row


class Percentiles(Struct, frozen=True):
    """The durations, in seconds, that 50 %, 95 % and 99 % of the jobs did not exceed."""

    p50: float
    p95: float
    p99: float


class Ended(Struct, frozen=True, kw_only=True):
    """Statistics of the jobs that have ended: those of one task, or of all if `task` is None."""

    task: str | None
    completed: int
    failed: int
    cancelled: int
    per_second: float
    failure_rate: float | None
    """The share that failed of the jobs that completed or failed."""
    waited: Percentiles | None
    """Seconds from being ready to the start of the last attempt."""
    ran: Percentiles | None
    """Seconds that the last attempt took."""
    mean: float | None = None
    """Seconds that the last attempt took on average."""
    last_at: datetime | None = None
    """When the last of them ended."""

    @property
    def number(self) -> int:
        return self.completed + self.failed + self.cancelled


class Throughput(Struct, frozen=True, kw_only=True):
    """The jobs that ended within the last `window` seconds.

    `covered` is shorter than `window` if so many jobs have ended that only those of the last
    `covered` seconds were read.
    """

    window: float
    covered: float
    total: Ended
    tasks: tuple[Ended, ...]

    @property
    def is_whole(self) -> bool:
        return self.covered >= self.window - 0.001


def throughput_from(rows: Iterable[Row]) -> list[Throughput]:
    """Build a `Throughput` for each window from the rows of `get_throughput`.

    The first row of each window is the total.
    """
    windows = []
    for window, group in groupby(rows, key=lambda row: row["window"]):
        total, *tasks = group
        windows.append(
            Throughput(
                window=window,
                covered=total["covered"],
                total=_ended(total),
                tasks=tuple(_ended(row) for row in tasks),
            )
        )
    return windows


def _ended(row: Row) -> Ended:
    completed, failed, cancelled = row["completed"], row["failed"], row["cancelled"]
    finished = completed + failed
    return Ended(
        task=row["task"],
        completed=completed,
        failed=failed,
        cancelled=cancelled,
        per_second=(finished + cancelled) / row["covered"] if row["covered"] > 0 else 0.0,
        failure_rate=failed / finished if finished else None,
        waited=_percentiles(row["waited"]),
        ran=_percentiles(row["ran"]),
        mean=None if row["mean"] is None else max(row["mean"], 0.0),
        last_at=row["last_at"],
    )


def _percentiles(values: Sequence[float] | None) -> Percentiles | None:
    # Negative if the database's clock was set back between two of a job's times.
    return None if not values else Percentiles(*(max(value, 0.0) for value in values))
