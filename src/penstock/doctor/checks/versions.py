"""Do all workers run the same version of Penstock?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from penstock.doctor.check import Check, Group
from penstock.doctor.finding import Finding, ok, skipped, warning
from penstock.doctor.limits import Limits
from penstock.doctor.workforce import living, workforce
from penstock.insights import WorkerInsight
from penstock.wording import listed


def judge(workers: Sequence[WorkerInsight], _: Limits) -> Sequence[Finding]:
    by_version: dict[str, list[str]] = defaultdict(list)
    for worker in living(workers):
        by_version[worker.penstock or "unknown"].append(worker.name)
    if not by_version:
        return [skipped("No worker is alive.")]
    if len(by_version) == 1:
        return [ok(f"All workers run Penstock {next(iter(by_version))}.")]
    told = "; ".join(f"{each}: {listed(names)}" for each, names in sorted(by_version.items()))
    return [
        warning(
            f"Workers run different versions of Penstock: {told}.",
            "That is fine during a deploy. If none is under way, one was not finished: restart the "
            "workers of the old version.",
        )
    ]


VERSIONS = Check(
    "versions",
    Group.WORKERS,
    "Do all workers run the same version of Penstock?",
    workforce,
    judge,
)
