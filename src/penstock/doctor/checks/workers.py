"""Are there workers, and do they give signs of life?"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.doctor.check import Check, Group
from penstock.doctor.finding import Finding, ok, warning
from penstock.doctor.leases import Lease, leases, living
from penstock.doctor.limits import Limits
from penstock.doctor.patient import Patient
from penstock.doctor.wording import counted, listed, span


async def read(patient: Patient) -> list[Lease]:
    return await leases(patient)


def judge(all_leases: Sequence[Lease], limits: Limits) -> Sequence[Finding]:
    alive = living(all_leases)
    lost = [lease for lease in all_leases if not lease.alive]
    findings = [
        _late(lease) for lease in alive if lease.silent > limits.silent_share * lease.length
    ]
    if not alive:
        findings.append(
            warning("No worker is alive.", "Start one where your code is:", "penstock work APP")
        )
    if lost:
        findings.append(_lost(lost))
    if findings:
        return findings
    names = listed(lease.worker for lease in alive)
    return [ok(f"{counted(len(alive), 'worker')} alive, each heard of lately: {names}.")]


def _late(lease: Lease) -> Finding:
    return warning(
        f"The worker {_who(lease)} has not renewed its lease for {span(lease.silent)}; after "
        f"{span(lease.length)} it counts as lost, and its jobs are run elsewhere.",
        "Look at its log: it may be cut off from the database, frozen, or short of CPU.",
    )


def _lost(lost: Sequence[Lease]) -> Finding:
    return warning(
        f"{counted(len(lost), 'worker')} ended without giving the lease back, within the last "
        f"hours: {listed(map(_who, lost))}.",
        "Something killed them, such as the kernel for want of memory. Their jobs were taken back; "
        "what was lost three times has failed as worker_lost:",
        "penstock jobs list --state failed",
    )


def _who(lease: Lease) -> str:
    info = lease.info
    return f"{lease.worker} (process {info.pid} on {info.host})" if info.pid else lease.worker


WORKERS = Check(
    "workers",
    Group.WORKERS,
    "Are there workers, and do they renew their leases?",
    read,
    judge,
)
