"""Are workers told of new jobs at once?"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.doctor.check import Check, Group
from penstock.doctor.finding import Finding, ok, skipped, warning
from penstock.doctor.limits import Limits
from penstock.doctor.workforce import living, workforce
from penstock.insights import WorkerInsight
from penstock.wording import listed


def judge(workers: Sequence[WorkerInsight], limits: Limits) -> Sequence[Finding]:
    alive = living(workers)
    if not alive:
        return [skipped("No worker is alive.")]
    deaf = [worker for worker in alive if worker.age >= limits.starting and not worker.hears]
    if not deaf:
        return [ok("Every worker hears of new jobs at once.")]
    return [
        warning(
            f"No notification reaches {listed(worker.name for worker in deaf)}: new jobs begin "
            "only when the worker looks for them, every second.",
            "A pooler in transaction mode keeps them. Give the workers Postgres's own address to "
            "listen on, one connection each:",
            "export PENSTOCK_LISTEN_URL=postgresql://…",
        )
    ]


NOTIFICATIONS = Check(
    "notifications", Group.WORKERS, "Are workers told of new jobs at once?", workforce, judge
)
