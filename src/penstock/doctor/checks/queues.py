"""Checks of what keeps waiting jobs from running: no worker, a pause, a window or a limit."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from msgspec import Struct

from penstock.doctor.check import (
    Check,
    CheckContext,
    CheckGroup,
    CheckLimits,
    Finding,
    error,
    ok,
    warning,
)
from penstock.doctor.checks.workers import living, read_workers
from penstock.insights import Window, WorkerInsight
from penstock.insights.queues import lane_window
from penstock.job import split_lane
from penstock.wording import counted, listed, span

# The ready jobs, by queue and task.


class ReadyJobs(Struct, frozen=True):
    """Ready jobs of one task in one queue, counted up to a bound.

    `seconds` is how long the oldest has waited. `paused` is for how many seconds the queue has
    been paused, or None.
    """

    queue: str
    task: str
    jobs: int
    seconds: float
    example: int
    paused: float | None = None


async def read_ready_jobs(context: CheckContext) -> list[ReadyJobs]:
    """Count the first ready jobs of each queue, by task."""
    return await context.fetch(ReadyJobs, "examine_ready_jobs", context.limits.sample_jobs)


# The lanes in which jobs wait, and what may hold these up.


class WaitingLane(Struct, frozen=True, kw_only=True):
    """One lane with ready jobs. Times are in seconds."""

    queue: str
    name: str
    limits: tuple[str, ...] = ()
    seconds: float
    """How long the oldest has waited."""
    paused: float | None = None
    """For how long the lane has been paused, if it is."""
    window: Window = Window()
    fair: bool = False
    laneless: int | None = None
    """How many jobs of a fair queue have no lane."""
    shut_by: str | None = None
    """The key of a limit that lets none of its jobs run."""


async def read_waiting_lanes(context: CheckContext) -> list[WaitingLane]:
    """Return the lanes that have ready jobs, by queue and name, up to a bound."""
    max_lanes, laneless = context.limits.sample_jobs, context.limits.laneless_jobs
    return await context.fetch(_lane_from, "examine_lanes", max_lanes, laneless)


def _lane_from(**row: Any) -> WaitingLane:
    name, limits = split_lane(row.pop("lane"))
    window = lane_window(row)
    return WaitingLane(name=name, limits=limits, window=window, **row)


# Are there ready jobs that no living worker serves?


class QueueService(Struct, frozen=True):
    """The ready jobs, ordered by queue, and the living workers."""

    waiting: tuple[ReadyJobs, ...]
    alive: tuple[WorkerInsight, ...]

    def workers_of(self, queue: str) -> list[WorkerInsight]:
        return [worker for worker in self.alive if queue in worker.queues]


async def read_unserved(context: CheckContext) -> QueueService:
    ready_jobs = await read_ready_jobs(context)
    return QueueService(tuple(ready_jobs), tuple(living(await read_workers(context))))


def judge_unserved(service: QueueService, limits: CheckLimits) -> Sequence[Finding]:
    # Paused queues are meant to wait, and have a check of their own.
    active = [each for each in service.waiting if each.paused is None]
    findings: list[Finding] = []
    for queue, group in groupby(active, key=lambda ready: ready.queue):
        by_task, workers = list(group), service.workers_of(queue)
        late = [ready for ready in by_task if ready.seconds >= limits.unserved]
        if workers:
            findings += _unserved_task_findings(late, workers, limits)
        elif late:
            findings.append(_unserved_queue_finding(error, queue, late, limits))
        elif service.alive:
            # Workers of other queues have started, so it is unlikely that one is about to.
            findings.append(_unserved_queue_finding(warning, queue, by_task, limits))
    if findings:
        return findings
    if active and not service.alive:
        return [
            ok(f"No job has been ready for {span(limits.unserved)} yet, but there is no worker.")
        ]
    return [ok("Every queue and task with ready jobs has a worker.")]


def _unserved_queue_finding(
    verdict: Callable[..., Finding], queue: str, by_task: Sequence[ReadyJobs], limits: CheckLimits
) -> Finding:
    jobs = sum(ready.jobs for ready in by_task)
    return verdict(
        f"The queue {queue} has {counted(jobs, 'job', limits.sample_jobs)} and no living worker; "
        f"the oldest has waited for {span(max(ready.seconds for ready in by_task))}. Tasks: "
        f"{listed(ready.task for ready in by_task)}.",
        "Start a worker for it where the code of these tasks is:",
        f"penstock work APP --queue {queue}",
    )


def _unserved_task_findings(
    by_task: Sequence[ReadyJobs], workers: Sequence[WorkerInsight], limits: CheckLimits
) -> list[Finding]:
    return [
        error(
            f"The queue {ready.queue} has {counted(ready.jobs, 'job', limits.sample_jobs)} of the "
            f"task {ready.task}, which none of its workers has; the oldest has waited for "
            f"{span(ready.seconds)}. Its workers: {listed(worker.name for worker in workers)}.",
            "Deploy the code that has it, or register the task with the app that they run.",
            f"penstock jobs show {ready.example}",
        )
        for ready in by_task
        if not any(worker.may_run(ready.task) for worker in workers)
    ]


UNSERVED = Check(
    "unserved-jobs",
    CheckGroup.JOBS,
    "Are there ready jobs in a queue, or of a task, that no living worker serves?",
    read_unserved,
    judge_unserved,
)


# Do jobs wait for a worker that serves their tenant?


class TenantService(Struct, frozen=True):
    """The lanes in which jobs wait, and the living workers with the tenants that they serve."""

    lanes: tuple[WaitingLane, ...]
    alive: tuple[WorkerInsight, ...]


async def read_unserved_tenants(context: CheckContext) -> TenantService:
    alive = living(await read_workers(context))
    if all(worker.tenants is None and not worker.except_tenants for worker in alive):
        return TenantService((), tuple(alive))
    return TenantService(tuple(await read_waiting_lanes(context)), tuple(alive))


def judge_unserved_tenants(service: TenantService, limits: CheckLimits) -> Sequence[Finding]:
    unserved: dict[str, list[WaitingLane]] = {}
    for lane in service.lanes:
        # A queue without any worker has a check of its own.
        serving = [worker for worker in service.alive if lane.queue in worker.queues]
        if (
            serving
            and lane.seconds >= limits.unserved
            and not any(worker.serves(lane.name) for worker in serving)
        ):
            unserved.setdefault(lane.queue, []).append(lane)
    findings = [_unserved_tenants_finding(queue, lanes) for queue, lanes in unserved.items()]
    return findings or [ok("Every tenant whose jobs wait has a worker.")]


def _unserved_tenants_finding(queue: str, lanes: Sequence[WaitingLane]) -> Finding:
    names = list(dict.fromkeys(lane.name for lane in lanes))
    return error(
        f"The queue {queue} has jobs of {counted(len(names), 'tenant')} whom none of its living "
        f"workers serves: {listed(repr(name) for name in names)}. The oldest has waited for "
        f"{span(max(lane.seconds for lane in lanes))}.",
        "Start a worker for them, or one for all tenants:",
        f"penstock work APP --queue {queue} --tenant {shlex.quote(names[0])}",
        f"penstock work APP --queue {queue}",
    )


UNSERVED_TENANTS = Check(
    "unserved-tenants",
    CheckGroup.JOBS,
    "Do jobs wait for a worker that serves their tenant?",
    read_unserved_tenants,
    judge_unserved_tenants,
)


# Do jobs wait in queues that are paused?


async def read_paused(context: CheckContext) -> list[ReadyJobs]:
    return [ready for ready in await read_ready_jobs(context) if ready.paused is not None]


def judge_paused(ready_jobs: Sequence[ReadyJobs], limits: CheckLimits) -> Sequence[Finding]:
    findings = [
        _paused_finding(queue, list(by_task), limits)
        for queue, by_task in groupby(ready_jobs, key=lambda ready: ready.queue)
    ]
    return findings or [ok("No job waits in a queue that is paused.")]


def _paused_finding(queue: str, by_task: Sequence[ReadyJobs], limits: CheckLimits) -> Finding:
    jobs = sum(ready.jobs for ready in by_task)
    return warning(
        f"The queue {queue} has been paused for {span(by_task[0].paused or 0)} with "
        f"{counted(jobs, 'job', limits.sample_jobs)} in it, the oldest of which has waited for "
        f"{span(max(ready.seconds for ready in by_task))}.",
        "Let its workers go on, unless it is meant to wait:",
        f"penstock queues resume {queue}",
    )


PAUSED = Check(
    "paused-queues",
    CheckGroup.JOBS,
    "Do jobs wait in queues that are paused?",
    read_paused,
    judge_paused,
)


# Do jobs wait in lanes that are paused?


async def read_paused_lanes(context: CheckContext) -> list[WaitingLane]:
    return [lane for lane in await read_waiting_lanes(context) if lane.paused is not None]


def judge_paused_lanes(lanes: Sequence[WaitingLane], _: CheckLimits) -> Sequence[Finding]:
    findings = [
        _paused_lanes_finding(queue, list(paused))
        for queue, paused in groupby(lanes, key=lambda lane: lane.queue)
    ]
    return findings or [ok("No job waits in a lane that is paused.")]


def _paused_lanes_finding(queue: str, lanes: Sequence[WaitingLane]) -> Finding:
    names = list(dict.fromkeys(lane.name for lane in lanes))
    oldest = max(lane.seconds for lane in lanes)
    return warning(
        f"Jobs wait in {counted(len(names), 'lane')} of the queue {queue} that are paused: "
        f"{listed(names)}. The oldest has waited for {span(oldest)}.",
        "Let workers go on with them, unless they are meant to wait:",
        *(f"penstock lanes set {queue} {shlex.quote(name)} --resume" for name in names[:5]),
    )


PAUSED_LANES = Check(
    "paused-lanes",
    CheckGroup.JOBS,
    "Do jobs wait in lanes that are paused?",
    read_paused_lanes,
    judge_paused_lanes,
)


# Do jobs wait for a window that never opens?


async def read_windows(context: CheckContext) -> list[WaitingLane]:
    return [lane for lane in await read_waiting_lanes(context) if lane.window.is_shut]


def judge_windows(lanes: Sequence[WaitingLane], _: CheckLimits) -> Sequence[Finding]:
    findings = [
        _windows_finding(queue, list(shut))
        for queue, shut in groupby(lanes, key=lambda lane: lane.queue)
    ]
    return findings or [ok("No job waits for a window that never opens.")]


def _windows_finding(queue: str, lanes: Sequence[WaitingLane]) -> Finding:
    names = list(dict.fromkeys(lane.name or "(no name)" for lane in lanes))
    oldest = max(lane.seconds for lane in lanes)
    return error(
        f"The windows of {counted(len(names), 'lane')} of the queue {queue} never open: "
        f"{listed(names)}. The oldest job has waited for {span(oldest)}.",
        "Set other hours, for the queue or for the lane, or none:",
        f"penstock queues set {queue} --no-window",
        f"penstock lanes set {queue} {shlex.quote(lanes[0].name)} --no-window",
    )


WINDOWS = Check(
    "closed-windows",
    CheckGroup.JOBS,
    "Do jobs wait for a window that never opens?",
    read_windows,
    judge_windows,
)


# Do jobs wait for a limit that lets none of them run?


MAX_LIMITS_NAMED = 10


async def read_shut_limits(context: CheckContext) -> list[WaitingLane]:
    return [lane for lane in await read_waiting_lanes(context) if lane.shut_by is not None]


def judge_shut_limits(lanes: Sequence[WaitingLane], _: CheckLimits) -> Sequence[Finding]:
    by_key: dict[str, list[WaitingLane]] = {}
    for lane in lanes:
        by_key.setdefault(lane.shut_by or "", []).append(lane)
    findings = [_shut_limits_finding(key, by_key[key]) for key in list(by_key)[:MAX_LIMITS_NAMED]]
    return findings or [ok("No job waits for a limit that lets nothing run.")]


def _shut_limits_finding(key: str, lanes: Sequence[WaitingLane]) -> Finding:
    queues = listed(sorted({lane.queue for lane in lanes}))
    oldest = max(lane.seconds for lane in lanes)
    return warning(
        f"The limit {key} has no slots or no rate, and the jobs of {counted(len(lanes), 'lane')} "
        f"wait for it, in the queue {queues}. The oldest has waited for {span(oldest)}.",
        "Give it some, unless it is meant to be an emergency stop:",
        f"penstock limits set {shlex.quote(key)} --slots 10",
    )


SHUT_LIMITS = Check(
    "shut-limits",
    CheckGroup.JOBS,
    "Do jobs wait for a limit that lets none of them run?",
    read_shut_limits,
    judge_shut_limits,
)


# Is a bucket closed for long?


class ClosedBucket(Struct, frozen=True):
    """A closed bucket, which opens in `seconds`."""

    key: str
    seconds: float


async def read_closed_buckets(context: CheckContext) -> list[ClosedBucket]:
    return await context.fetch(ClosedBucket, "examine_closed_buckets")


def judge_closed_buckets(closed: Sequence[ClosedBucket], limits: CheckLimits) -> Sequence[Finding]:
    findings = [_closed_buckets_finding(each) for each in closed if each.seconds >= limits.closed]
    return findings or [ok(f"No bucket is closed for {span(limits.closed)} or longer.")]


def _closed_buckets_finding(closed: ClosedBucket) -> Finding:
    return warning(
        f"The bucket {closed.key} is closed for another {span(closed.seconds)}: no job that needs "
        "it begins.",
        "A handler closed it, as after an answer with Retry-After, or an operator did. If that is "
        "a mistake, open it:",
        f"penstock limits open {shlex.quote(closed.key)}",
    )


CLOSED_BUCKETS = Check(
    "closed-buckets",
    CheckGroup.JOBS,
    "Is a bucket closed for long?",
    read_closed_buckets,
    judge_closed_buckets,
)


# Do the jobs of a fair queue take turns?


async def read_laneless(context: CheckContext) -> list[WaitingLane]:
    return [lane for lane in await read_waiting_lanes(context) if lane.fair]


def judge_laneless(lanes: Sequence[WaitingLane], limits: CheckLimits) -> Sequence[Finding]:
    findings = []
    for queue, group in groupby(lanes, key=lambda lane: lane.queue):
        waiting_lanes = list(group)
        jobs = sum(lane.laneless or 0 for lane in waiting_lanes)
        if jobs >= limits.laneless_jobs and not any(lane.name for lane in waiting_lanes):
            findings.append(_laneless_finding(queue, jobs))
    return findings or [ok("Jobs of fair queues are in lanes that take turns.")]


def _laneless_finding(queue: str, jobs: int) -> Finding:
    return warning(
        f"The queue {queue} is fair, but {counted(jobs, 'job', jobs)} wait in it without a tenant, "
        "or what else makes its lanes, so they all share one lane.",
        "Enqueue them with a tenant, or with a lane; or let something else make the lanes:",
        f"penstock queues set {queue} --lane-key args.customer",
    )


LANELESS = Check(
    "laneless-jobs",
    CheckGroup.JOBS,
    "Do the jobs of fair queues take turns?",
    read_laneless,
    judge_laneless,
)
