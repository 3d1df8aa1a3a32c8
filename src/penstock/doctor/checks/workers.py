"""Are there workers, and do they give signs of life?"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.doctor.check import Check, Group
from penstock.doctor.finding import Finding, error, ok, warning
from penstock.doctor.limits import Limits
from penstock.doctor.workforce import living, workforce
from penstock.insights import Count, Unwritten, WorkerInsight
from penstock.wording import counted, listed, span

# So few jobs are named one by one.
IDS_SHOWN = 3


def judge(workers: Sequence[WorkerInsight], limits: Limits) -> Sequence[Finding]:
    alive = living(workers)
    names = {(worker.name, worker.host, worker.pid) for worker in alive}
    ended = [worker for worker in workers if not worker.is_alive]
    back = [worker for worker in ended if (worker.name, worker.host, worker.pid) in names]
    lost = [worker for worker in ended if worker not in back]
    findings = [
        _late(worker) for worker in alive if worker.silent > limits.silent_share * worker.patience
    ]
    findings += [_held_up(worker, worker.unwritten) for worker in alive if worker.unwritten]
    if not alive:
        findings.append(
            warning("No worker is alive.", "Start one where your code is:", "penstock work APP")
        )
    if lost:
        findings.append(_lost(lost))
    if back:
        findings.append(_back(back))
    if findings:
        return findings
    told = listed(worker.name for worker in alive)
    return [ok(f"{counted(len(alive), 'worker')} alive, each heard of lately: {told}.")]


def _late(worker: WorkerInsight) -> Finding:
    return warning(
        f"The worker {_who(worker)} has not renewed its lease for {span(worker.silent)}; after "
        f"{span(worker.patience)} it counts as lost, and its jobs are run elsewhere.",
        "Look at its log: it may be cut off from the database, frozen, or short of CPU.",
    )


def _held_up(worker: WorkerInsight, unwritten: Unwritten) -> Finding:
    meanwhile = "goes on with others" if unwritten.is_claiming else "claims nothing until it can"
    return error(
        f"The worker {_who(worker)} cannot write the outcomes of "
        f"{_jobs(unwritten)}: {unwritten.message} ({unwritten.error}). It keeps "
        f"them, and {meanwhile}.",
        "Mend what the message names: a right (see the check rights), a function (schema), a "
        "partition (partitions), or a trigger or constraint of yours on its tables. The worker "
        "then goes on by itself; nothing runs twice.",
    )


def _jobs(unwritten: Unwritten) -> str:
    """How many jobs, and which, if these are few."""
    told = counted(unwritten.jobs, "job")
    if 0 < unwritten.jobs <= min(IDS_SHOWN, len(unwritten.ids)):
        return f"{told} ({listed(unwritten.ids)})"
    return told


def _lost(lost: Sequence[WorkerInsight]) -> Finding:
    return warning(
        f"{counted(len(lost), 'worker')} stopped renewing the lease without giving it back: "
        f"{listed(map(_who, lost))}.",
        "Something killed them, such as the kernel for want of memory, or they are frozen or cut "
        f"off from the database. {_their_jobs(lost)}; what was lost three times fails as "
        "worker_lost:",
        "penstock jobs list --state failed",
    )


def _back(back: Sequence[WorkerInsight]) -> Finding:
    return warning(
        f"{counted(len(back), 'worker')} did not renew the lease in time, and works on under a new "
        f"one: {listed(map(_who, back))}.",
        "Look at the log: it was frozen, cut off from the database, or short of CPU for longer "
        f"than the lease. {_their_jobs(back)}.",
    )


def _their_jobs(lost: Sequence[WorkerInsight]) -> str:
    left = Count.sum(worker.running for worker in lost)
    if not left.number:
        return "Their jobs were taken back"
    jobs = counted(left.number, "job", None if left.is_exact else left.number)
    return f"They still have {jobs} until a living worker takes them back, within seconds"


def _who(worker: WorkerInsight) -> str:
    if worker.pid is None:
        return worker.name
    return f"{worker.name} (process {worker.pid} on {worker.host})"


WORKERS = Check(
    "workers",
    Group.WORKERS,
    "Are there workers, and do they renew their leases?",
    workforce,
    judge,
)
