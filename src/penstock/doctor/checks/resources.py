"""Have all workers opened the resources that their tasks need?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from penstock.doctor.check import Check, Group
from penstock.doctor.finding import Finding, error, ok, warning
from penstock.doctor.limits import Limits
from penstock.doctor.workforce import living, workforce
from penstock.insights import WorkerInsight
from penstock.wording import listed


def judge(workers: Sequence[WorkerInsight], limits: Limits) -> Sequence[Finding]:
    alive = living(workers)
    missing: dict[str, list[WorkerInsight]] = defaultdict(list)
    for worker in alive:
        # One that has only just started may still be opening them.
        if worker.age >= limits.starting:
            for resource in worker.missing_resources:
                missing[resource].append(worker)
    if not missing:
        return [ok("Every worker has opened its resources.")]
    return [_finding(name, lacking, len(alive)) for name, lacking in sorted(missing.items())]


def _finding(resource: str, lacking: Sequence[WorkerInsight], alive: int) -> Finding:
    everywhere = len(lacking) == alive
    reason = lacking[0].missing_resources[resource]
    return (error if everywhere else warning)(
        f"The resource {resource} is not open on {listed(worker.name for worker in lacking)}"
        f"{', nor anywhere else' if everywhere else ''}: {reason}.",
        "The tasks that need it wait. The worker tries again every ten seconds: bring back what it "
        "connects to, or mend its settings and restart the worker.",
    )


RESOURCES = Check(
    "resources",
    Group.WORKERS,
    "Have all workers opened the resources that their tasks need?",
    workforce,
    judge,
)
