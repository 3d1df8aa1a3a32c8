"""Checks of workers: signs of life, versions, resources, leader, notifications and idle grants."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct

from penstock.doctor.check import (
    Check,
    Finding,
    Group,
    Limits,
    Patient,
    error,
    ok,
    skipped,
    warning,
)
from penstock.insights import Count, Insights, Unwritten, WorkerInsight
from penstock.wording import counted, listed, span

# The workers, as their leases tell of them.


async def workforce(patient: Patient) -> list[WorkerInsight]:
    """The workers that live, and those that ended without giving their lease back."""
    async with patient.bounds() as connection:
        found = await Insights(patient.store, connection).workers()
    return [worker for worker in found if worker.kind == "worker"]


def living(workers: Iterable[WorkerInsight]) -> list[WorkerInsight]:
    return [worker for worker in workers if worker.is_alive]


# Are there workers, and do they give signs of life?


# So few jobs are named one by one.
IDS_SHOWN = 3


def judge_workers(workers: Sequence[WorkerInsight], limits: Limits) -> Sequence[Finding]:
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
    judge_workers,
)


# Do all workers run the same version of Penstock?


def judge_versions(workers: Sequence[WorkerInsight], _: Limits) -> Sequence[Finding]:
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
    judge_versions,
)


# Have all workers opened the resources that their tasks need?


def judge_resources(workers: Sequence[WorkerInsight], limits: Limits) -> Sequence[Finding]:
    alive = living(workers)
    missing: dict[str, list[WorkerInsight]] = defaultdict(list)
    for worker in alive:
        # One that has only just started may still be opening them.
        if worker.age >= limits.starting:
            for resource in worker.missing_resources:
                missing[resource].append(worker)
    if not missing:
        return [ok("Every worker has opened its resources.")]
    return [
        _resources_finding(name, lacking, len(alive)) for name, lacking in sorted(missing.items())
    ]


def _resources_finding(resource: str, lacking: Sequence[WorkerInsight], alive: int) -> Finding:
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
    judge_resources,
)


# Does a worker lead the maintenance?


def judge_leader(workers: Sequence[WorkerInsight], limits: Limits) -> Sequence[Finding]:
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


LEADER = Check(
    "leader", Group.WORKERS, "Does a worker lead the maintenance?", workforce, judge_leader
)


# Are workers told of new jobs at once?


def judge_notifications(workers: Sequence[WorkerInsight], limits: Limits) -> Sequence[Finding]:
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
    "notifications",
    Group.WORKERS,
    "Are workers told of new jobs at once?",
    workforce,
    judge_notifications,
)


# Are slots of a limit waited for although nobody uses them?


class IdleGrant(Struct, frozen=True):
    """A limit with which nothing runs, who holds its slots and who waits for some."""

    key: str
    slots: int
    granted: int
    holders: list[str] | None
    waiters: list[str]


async def read_idle_grants(patient: Patient) -> list[IdleGrant]:
    """Looks twice: between two jobs, and just after a grant, it is as it should be."""
    first = await _look(patient)
    if not first or await _is_dry(patient):
        return []
    await asyncio.sleep(patient.limits.idle_grant)
    known = {each.key for each in first}
    return [each for each in await _look(patient) if each.key in known]


async def _look(patient: Patient) -> list[IdleGrant]:
    return await patient.ask(IdleGrant, "examine_idle_grants", patient.limits.sample_jobs)


async def _is_dry(patient: Patient) -> bool:
    """Whether a rate may be what the jobs wait for, whose slots are held meanwhile."""
    async with patient.bounds() as connection:
        found = await Insights(patient.store, connection).limits(limit=1000)
    return any(each.closed_until or each.refills_in != 0 for each in found.limits)


def judge_idle_grants(grants: Sequence[IdleGrant], _: Limits) -> Sequence[Finding]:
    findings = [_idle_grants_finding(grant) for grant in grants]
    return findings or [ok("Slots of limits that are waited for are in use.")]


def _idle_grants_finding(grant: IdleGrant) -> Finding:
    holders = f", held by {listed(grant.holders)}" if grant.holders else ""
    wait = "waits" if len(grant.waiters) == 1 else "wait"
    return error(
        f"{listed(grant.waiters)} {wait} for slots of the limit {grant.key}, and no job runs with "
        f"it: {grant.granted} of {counted(grant.slots, 'slot')} are granted{holders}.",
        "Look at the logs of these workers. A worker that is restarted gives back what it holds.",
        "penstock limits list",
    )


IDLE_GRANTS = Check(
    "idle-grants",
    Group.WORKERS,
    "Are slots of a limit waited for although nobody uses them?",
    read_idle_grants,
    judge_idle_grants,
)
