"""Checks of workers: leases, versions, resources, the leader, notifications and idle grants."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct

from penstock.doctor.check import (
    Check,
    CheckContext,
    CheckGroup,
    CheckLimits,
    Finding,
    error,
    ok,
    skipped,
    warning,
)
from penstock.insights import Count, Insights, Unwritten, WorkerInsight
from penstock.wording import counted, listed, span

# The workers, as their leases describe them.


async def read_workers(context: CheckContext) -> list[WorkerInsight]:
    """Return the living workers, and the lost workers, whose lease has expired."""
    async with context.transaction() as connection:
        workers = await Insights(context.store, connection).workers()
    return [worker for worker in workers if worker.kind == "worker"]


def living(workers: Iterable[WorkerInsight]) -> list[WorkerInsight]:
    return [worker for worker in workers if worker.is_alive]


# Are there workers, and do they give signs of life?


# Up to this many jobs are named.
MAX_JOBS_NAMED = 3


def judge_workers(workers: Sequence[WorkerInsight], limits: CheckLimits) -> Sequence[Finding]:
    alive = living(workers)
    living_processes = {(worker.name, worker.host, worker.pid) for worker in alive}
    expired = [worker for worker in workers if not worker.is_alive]
    # These processes did not renew a lease in time, and have a new one.
    returned = [
        worker for worker in expired if (worker.name, worker.host, worker.pid) in living_processes
    ]
    lost = [worker for worker in expired if worker not in returned]
    findings = [
        _silent_finding(worker)
        for worker in alive
        if worker.silent > limits.silent_share * worker.patience
    ]
    findings += [
        _unwritten_finding(worker, worker.unwritten) for worker in alive if worker.unwritten
    ]
    if not alive:
        findings.append(
            warning("No worker is alive.", "Start one where your code is:", "penstock work APP")
        )
    if lost:
        findings.append(_lost_finding(lost))
    if returned:
        findings.append(_returned_finding(returned))
    if findings:
        return findings
    names = listed(worker.name for worker in alive)
    return [ok(f"{counted(len(alive), 'worker')} alive, each heard of lately: {names}.")]


def _silent_finding(worker: WorkerInsight) -> Finding:
    return warning(
        f"The worker {_full_name(worker)} has not renewed its lease for {span(worker.silent)}; "
        f"after {span(worker.patience)} it counts as lost, and its jobs are run elsewhere.",
        "Look at its log: it may be cut off from the database, frozen, or short of CPU.",
    )


def _unwritten_finding(worker: WorkerInsight, unwritten: Unwritten) -> Finding:
    meanwhile = "goes on with others" if unwritten.is_claiming else "claims nothing until it can"
    return error(
        f"The worker {_full_name(worker)} cannot write the outcomes of "
        f"{_jobs_of(unwritten)}: {unwritten.message} ({unwritten.error}). It keeps "
        f"them, and {meanwhile}.",
        "Mend what the message names: a right (see the check rights), a function (schema), a "
        "partition (partitions), or a trigger or constraint of yours on its tables. The worker "
        "then goes on by itself; nothing runs twice.",
    )


def _jobs_of(unwritten: Unwritten) -> str:
    """Return the number of jobs, and their ids if they are few."""
    number = counted(unwritten.jobs, "job")
    if 0 < unwritten.jobs <= min(MAX_JOBS_NAMED, len(unwritten.ids)):
        return f"{number} ({listed(unwritten.ids)})"
    return number


def _lost_finding(lost: Sequence[WorkerInsight]) -> Finding:
    return warning(
        f"{counted(len(lost), 'worker')} stopped renewing the lease without giving it back: "
        f"{listed(map(_full_name, lost))}.",
        "Something killed them, such as the kernel for want of memory, or they are frozen or cut "
        f"off from the database. {_jobs_left(lost)}; what was lost three times fails as "
        "worker_lost:",
        "penstock jobs list --state failed",
    )


def _returned_finding(returned: Sequence[WorkerInsight]) -> Finding:
    return warning(
        f"{counted(len(returned), 'worker')} did not renew the lease in time, and works on under a "
        f"new one: {listed(map(_full_name, returned))}.",
        "Look at the log: it was frozen, cut off from the database, or short of CPU for longer "
        f"than the lease. {_jobs_left(returned)}.",
    )


def _jobs_left(lost: Sequence[WorkerInsight]) -> str:
    left = Count.sum(worker.running for worker in lost)
    if not left.number:
        return "Their jobs were taken back"
    jobs = counted(left.number, "job", None if left.is_exact else left.number)
    return f"They still have {jobs} until a living worker takes them back, within seconds"


def _full_name(worker: WorkerInsight) -> str:
    if worker.pid is None:
        return worker.name
    return f"{worker.name} (process {worker.pid} on {worker.host})"


WORKERS = Check(
    "workers",
    CheckGroup.WORKERS,
    "Are there workers, and do they renew their leases?",
    read_workers,
    judge_workers,
)


# Do all workers run the same version of Penstock?


def judge_versions(workers: Sequence[WorkerInsight], _: CheckLimits) -> Sequence[Finding]:
    by_version: dict[str, list[str]] = defaultdict(list)
    for worker in living(workers):
        by_version[worker.penstock or "unknown"].append(worker.name)
    if not by_version:
        return [skipped("No worker is alive.")]
    if len(by_version) == 1:
        return [ok(f"All workers run Penstock {next(iter(by_version))}.")]
    versions = "; ".join(
        f"{version}: {listed(names)}" for version, names in sorted(by_version.items())
    )
    return [
        warning(
            f"Workers run different versions of Penstock: {versions}.",
            "That is fine during a deploy. If none is under way, one was not finished: restart the "
            "workers of the old version.",
        )
    ]


VERSIONS = Check(
    "versions",
    CheckGroup.WORKERS,
    "Do all workers run the same version of Penstock?",
    read_workers,
    judge_versions,
)


# Have all workers opened the resources that their tasks need?


def judge_resources(workers: Sequence[WorkerInsight], limits: CheckLimits) -> Sequence[Finding]:
    alive = living(workers)
    missing: dict[str, list[WorkerInsight]] = defaultdict(list)
    for worker in alive:
        # A worker that has just started may still be opening them.
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
    verdict = error if everywhere else warning
    return verdict(
        f"The resource {resource} is not open on {listed(worker.name for worker in lacking)}"
        f"{', nor anywhere else' if everywhere else ''}: {reason}.",
        "The tasks that need it wait. The worker tries again every ten seconds: bring back what it "
        "connects to, or mend its settings and restart the worker.",
    )


RESOURCES = Check(
    "resources",
    CheckGroup.WORKERS,
    "Have all workers opened the resources that their tasks need?",
    read_workers,
    judge_resources,
)


# Does a worker lead the maintenance?


def judge_leader(workers: Sequence[WorkerInsight], limits: CheckLimits) -> Sequence[Finding]:
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
    "leader", CheckGroup.WORKERS, "Does a worker lead the maintenance?", read_workers, judge_leader
)


# Are workers told of new jobs at once?


def judge_notifications(workers: Sequence[WorkerInsight], limits: CheckLimits) -> Sequence[Finding]:
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
    CheckGroup.WORKERS,
    "Are workers told of new jobs at once?",
    read_workers,
    judge_notifications,
)


# Are slots of a limit waited for although nobody uses them?


class IdleGrant(Struct, frozen=True):
    """A limit with unused slots, the workers that hold them and those that wait for slots."""

    key: str
    slots: int
    granted: int
    holders: list[str] | None
    waiters: list[str]


async def read_idle_grants(context: CheckContext) -> list[IdleGrant]:
    """Return the limits whose slots no job uses although workers wait for them.

    A limit is returned only if two readings, some seconds apart, both find it. Between two jobs,
    and just after a grant, slots are unused for a moment.
    """
    first = await _read_once(context)
    if not first or await _may_wait_for_rate(context):
        return []
    await asyncio.sleep(context.limits.idle_grant)
    known = {each.key for each in first}
    return [each for each in await _read_once(context) if each.key in known]


async def _read_once(context: CheckContext) -> list[IdleGrant]:
    return await context.fetch(IdleGrant, "examine_idle_grants", context.limits.sample_jobs)


async def _may_wait_for_rate(context: CheckContext) -> bool:
    """Return whether jobs may be waiting for a rate while their workers hold slots."""
    async with context.transaction() as connection:
        page = await Insights(context.store, connection).limits(limit=1000)
    return any(each.closed_until or each.refills_in != 0 for each in page.limits)


def judge_idle_grants(grants: Sequence[IdleGrant], _: CheckLimits) -> Sequence[Finding]:
    findings = [_idle_grants_finding(grant) for grant in grants]
    return findings or [ok("No worker waits for slots that nobody uses.")]


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
    CheckGroup.WORKERS,
    "Are slots of a limit waited for although nobody uses them?",
    read_idle_grants,
    judge_idle_grants,
)
