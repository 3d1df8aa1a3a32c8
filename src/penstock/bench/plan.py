"""The plan of a run: how many jobs and rounds, and which measurements."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import ConfigError

LATENCY_JOBS = 500
SINGLE_JOBS = 2000
ISOLATED_JOBS = 20_000
# A fair queue with many tenants is compared with one that has this few.
FEW_TENANTS = 100


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """How many jobs, how many rounds, and which of the longer measurements to add."""

    jobs: int = 100_000
    rounds: int = 3
    processes: int = 1
    backlog: tuple[int, ...] = ()
    soak: int = 0
    dead: int = 0
    tenants: int = 0
    batch: bool = False
    isolated: bool = False

    def __post_init__(self) -> None:
        _between("jobs", self.jobs, 1000, 10_000_000)
        _between("rounds", self.rounds, 1, 100)
        _between("processes", self.processes, 1, 64)
        for size in self.backlog:
            _between("backlog", size, 1000, 100_000_000)
        for setting in ("soak", "dead"):
            if getattr(self, setting):
                _between(setting, getattr(self, setting), 10_000, 100_000_000)
        if self.tenants:
            _between("tenants", self.tenants, 2 * FEW_TENANTS, self.jobs)

    @property
    def isolated_jobs(self) -> int:
        return min(ISOLATED_JOBS, self.jobs)

    @property
    def latency_jobs(self) -> int:
        return min(LATENCY_JOBS, self.jobs // 20)

    @property
    def single_jobs(self) -> int:
        return min(SINGLE_JOBS, self.jobs // 10)


def _between(setting: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise ConfigError(setting, value, f"{least} to {most}")
