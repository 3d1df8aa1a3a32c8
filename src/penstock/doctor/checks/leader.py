"""Does a worker lead the maintenance?"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.doctor.check import Check, Group
from penstock.doctor.finding import Finding, error, ok, skipped
from penstock.doctor.limits import Limits
from penstock.doctor.workforce import living, workforce
from penstock.insights import WorkerInsight


def judge(workers: Sequence[WorkerInsight], limits: Limits) -> Sequence[Finding]:
    alive = living(workers)
    if not alive:
        return [skipped("No worker is alive.")]
    for worker in alive:
        if worker.is_leader:
            return [ok(f"The worker {worker.name} leads the maintenance.")]
    if max(worker.age for worker in alive) < limits.leaderless:
        return [ok("The workers have only just started; one of them will lead in a moment.")]
    return [
        error(
            "There are workers, but none leads the maintenance: no scheduled job becomes ready, "
            "nothing expires, no partition is dropped.",
            "Workers stand for election every two seconds. Look for `Election failed` in their "
            "logs, and at the check rights.",
        )
    ]


LEADER = Check("leader", Group.WORKERS, "Does a worker lead the maintenance?", workforce, judge)
