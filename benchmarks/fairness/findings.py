"""What the starts of all jobs say: each tenant's share and waiting time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from statistics import mean, quantiles
from typing import Any

from benchmarks.fairness.load import Load
from benchmarks.fairness.simulation import Start

# Tenants of at most so many jobs are small ones.
SMALL = 30
# The largest tenants stand for themselves, the others in groups: so many each time it is ten fold.
ALONE = 10
GROUPS = 10


def findings(load: Load, starts: Sequence[Start]) -> dict[str, Any]:
    """By rank, the largest tenants first, and in short."""
    sizes, served = load.sizes(), _served(load, starts)
    due = fair_shares(sizes, sum(served))
    waits: dict[int, list[float]] = defaultdict(list)
    for one in starts:
        waits[one.tenant].append(one.waited)
    small = [wait for tenant, size in enumerate(sizes) if size <= SMALL for wait in waits[tenant]]
    return {
        "seconds": round(max(one.began for one in starts), 1),
        "started": sum(served),
        "jain": round(jain([got / fair for got, fair in zip(served, due, strict=True)]), 3),
        "share_of_largest": round(sum(served[: load.at_once]) / sum(served), 3),
        "small_wait_s": spread(small),
        "wait_s": spread([one.waited for one in starts]),
        "ranks": [
            {
                "first": first + 1,
                "last": last,
                "asked": round(mean(sizes[first:last]), 2),
                "due": round(mean(due[first:last]), 2),
                "started": round(mean(served[first:last]), 2),
                "wait_s": spread([w for tenant in range(first, last) for w in waits[tenant]]),
            }
            for first, last in groups(load.tenants)
        ],
    }


def _served(load: Load, starts: Sequence[Start]) -> list[int]:
    """How many jobs of each tenant had started when the last one arrived, or the first began."""
    counts = [0] * load.tenants
    moment = max(load.seconds, min(one.began for one in starts))
    for one in starts:
        counts[one.tenant] += one.began <= moment
    return counts


def groups(tenants: int) -> list[tuple[int, int]]:
    """Neighbouring ranks, from and to, as wide as their rank is high."""
    edges = {*range(ALONE), tenants}
    place = 0
    while (edge := round(ALONE * 10 ** (place / GROUPS))) < tenants:
        edges.add(edge)
        place += 1
    ordered = sorted(edge for edge in edges if edge <= tenants)
    return list(pairwise(ordered))


def fair_shares(sizes: Sequence[int], capacity: float) -> list[float]:
    """Who asks for less than an equal share gets it; what that leaves is shared in the same way.

    That is max-min fairness: nobody could get more but from somebody who has no more.
    """
    shares = [0.0] * len(sizes)
    left = capacity
    ranked = sorted(range(len(sizes)), key=lambda tenant: sizes[tenant])
    for place, tenant in enumerate(ranked):
        shares[tenant] = min(float(sizes[tenant]), left / (len(ranked) - place))
        left -= shares[tenant]
    return shares


def jain(shares: Sequence[float]) -> float:
    """Jain's index: 1 if all have the same, 1/n if one of n has everything."""
    return sum(shares) ** 2 / (len(shares) * sum(share * share for share in shares))


def spread(waits: Sequence[float]) -> dict[str, float]:
    """Seconds, in hundredths of the jobs."""
    cuts = quantiles([*waits, *waits], n=100, method="inclusive")
    found = {"p5": cuts[4], "p50": cuts[49], "p95": cuts[94], "p99": cuts[98], "max": max(waits)}
    return {name: round(value, 3) for name, value in found.items()}
