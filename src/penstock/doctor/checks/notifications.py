"""Are workers told of new jobs at once?"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.doctor.check import Check, Group
from penstock.doctor.finding import Finding, ok, skipped, warning
from penstock.doctor.leases import Lease, leases, living
from penstock.doctor.limits import Limits
from penstock.doctor.patient import Patient
from penstock.doctor.wording import listed


async def read(patient: Patient) -> list[Lease]:
    return living(await leases(patient))


def judge(alive: Sequence[Lease], limits: Limits) -> Sequence[Finding]:
    if not alive:
        return [skipped("No worker is alive.")]
    deaf = [lease for lease in alive if lease.age >= limits.starting and not lease.info.hears]
    if not deaf:
        return [ok("Every worker hears of new jobs at once.")]
    return [
        warning(
            f"No notification reaches {listed(lease.worker for lease in deaf)}: new jobs begin "
            "only when the worker looks for them, every second.",
            "A pooler in transaction mode keeps them. Give the workers Postgres's own address to "
            "listen on, one connection each:",
            "export PENSTOCK_LISTEN_URL=postgresql://…",
        )
    ]


NOTIFICATIONS = Check(
    "notifications", Group.WORKERS, "Are workers told of new jobs at once?", read, judge
)
