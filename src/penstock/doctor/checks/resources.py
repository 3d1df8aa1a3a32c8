"""Have all workers opened the resources that their tasks need?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from penstock.doctor.check import Check, Group
from penstock.doctor.finding import Finding, error, ok, warning
from penstock.doctor.leases import Lease, leases, living
from penstock.doctor.limits import Limits
from penstock.doctor.patient import Patient
from penstock.doctor.wording import listed


async def read(patient: Patient) -> list[Lease]:
    return living(await leases(patient))


def judge(alive: Sequence[Lease], limits: Limits) -> Sequence[Finding]:
    missing: dict[str, list[Lease]] = defaultdict(list)
    for lease in alive:
        # One that has only just started may still be opening them.
        if lease.age >= limits.starting:
            for resource in lease.info.missing_resources:
                missing[resource].append(lease)
    if not missing:
        return [ok("Every worker has opened its resources.")]
    return [_finding(name, lacking, len(alive)) for name, lacking in sorted(missing.items())]


def _finding(resource: str, lacking: Sequence[Lease], alive: int) -> Finding:
    everywhere = len(lacking) == alive
    reason = lacking[0].info.missing_resources[resource]
    return (error if everywhere else warning)(
        f"The resource {resource} is not open on {listed(lease.worker for lease in lacking)}"
        f"{', nor anywhere else' if everywhere else ''}: {reason}.",
        "The tasks that need it wait. The worker tries again every ten seconds: bring back what it "
        "connects to, or mend its settings and restart the worker.",
    )


RESOURCES = Check(
    "resources",
    Group.WORKERS,
    "Have all workers opened the resources that their tasks need?",
    read,
    judge,
)
