"""Who asks for how much, and when."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import NamedTuple

SEED = 20


class Arrival(NamedTuple):
    """One job: seconds after the start, and whose it is."""

    at: float
    tenant: int


@dataclass(frozen=True, slots=True)
class Load:
    """The k-th largest of the tenants asks for about a k-th of what the largest asks for (Zipf).

    The few largest bring all of theirs at the start; the jobs of the others come in one by one.
    """

    tenants: int = 10_000
    jobs: int = 120_000
    seconds: float = 40.0
    at_once: int = 10

    def sizes(self) -> list[int]:
        """How many jobs each tenant has, the largest first; everybody has one."""
        unit = self.jobs / sum(1 / rank for rank in range(1, self.tenants + 1))
        return [max(1, round(unit / rank)) for rank in range(1, self.tenants + 1)]

    def arrivals(self) -> list[Arrival]:
        """All jobs in the order of their arrival, the same in every run."""
        chance = Random(SEED)
        return sorted(
            Arrival(0.0 if tenant < self.at_once else chance.uniform(0, self.seconds), tenant)
            for tenant, size in enumerate(self.sizes())
            for _ in range(size)
        )
