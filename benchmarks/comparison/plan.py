"""How much is measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole run; `quick` only shows that everything works."""

    rounds: int = 3
    share: float = 1.0  # of the jobs that each peer's file names
    single_jobs: int = 2000
    latency_jobs: int = 300
    tune: bool = True
    tune_rounds: int = 2
    tune_share: float = 0.3
    copies: bool = True  # of the tables for each measurement; without, there can be but one

    @classmethod
    def quick(cls, *, tune: bool = False) -> Plan:
        return cls(rounds=1, share=0.01, single_jobs=20, latency_jobs=20, tune=tune, tune_rounds=1)

    def jobs(self, of_peer: int, share: float = 1.0) -> int:
        """At least a hundred, so that tenths mean something."""
        return max(100, round(of_peer * self.share * share))
