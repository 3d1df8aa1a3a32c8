"""What the rounds gave for one entrant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from benchmarks.comparison.drain import Drain
from benchmarks.comparison.entrant import Entrant
from benchmarks.comparison.spread import Spread
from penstock.bench.rounds import Latency


@dataclass
class Results:
    """Round by round; the page shows the medians and the ranges."""

    single: list[float] = field(default_factory=list)
    bulk: list[float] = field(default_factory=list)
    free: list[Drain] = field(default_factory=list)
    held: list[Drain] = field(default_factory=list)
    two: list[Drain] = field(default_factory=list)
    latency: list[Latency] = field(default_factory=list)
    counts: dict[str, list[float]] = field(default_factory=dict)  # by the names of a scene's own

    def measured(self) -> dict[str, list[float]]:
        """What each round gave, by the names that the table has for it."""
        return {
            "drain_per_s": [one.rate for one in self.free],
            "held_per_s": [one.rate for one in self.held],
            "two_processes_per_s": [one.rate for one in self.two],
            "bulk_per_s": self.bulk,
            "single_per_s": self.single,
            "pick_up_p50_ms": [one.p50 for one in self.latency],
            "pick_up_p99_ms": [one.p99 for one in self.latency],
            "worker_cpu_ms": [one.ms_per_1000(one.worker_cpu_seconds) for one in self.free],
            "postgres_cpu_ms": [
                one.ms_per_1000(one.server_cpu_seconds)
                for one in self.free
                if one.server_cpu_seconds is not None
            ],
            "memory_mb": [one.peak_rss / 2**20 for one in self.free if one.peak_rss],
            **self.counts,
        }

    def as_dict(self) -> dict[str, Any]:
        return {
            **{name: Spread.of(seen).as_dict() for name, seen in self.measured().items() if seen},
            "drain_tenths": tenths(self.free),
            "held_tenths": tenths(self.held),
        }


def tenths(drains: Sequence[Drain]) -> list[float]:
    """Jobs a second in each tenth of the drain, the median of the rounds."""
    columns = zip(*(one.tenths for one in drains), strict=True)
    return [round(median(column), 1) for column in columns]


def described(entrant: Entrant, jobs: int, results: Results) -> dict[str, Any]:
    """One entrant in the document: what it is, how it ran, what came of it."""
    facts = asdict(entrant.facts)
    kept = {name: facts[name] for name in ("name", "home", "reasons", "promises")}
    return {
        **kept,
        "version": entrant.version,
        "python": entrant.python,
        "settings": dict(entrant.settings),
        "tried_per_s": entrant.tried,
        "jobs": jobs,
        **results.as_dict(),
    }
