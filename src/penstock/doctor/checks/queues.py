"""Checks of what keeps jobs from workers: nobody serves them, a pause, a window or a limit."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from msgspec import Struct

from penstock.doctor.check import Check, Finding, Group, Limits, Patient, error, ok, warning
from penstock.doctor.checks.workers import living, workforce
from penstock.insights import Window, WorkerInsight
from penstock.insights.queues import lane_window
from penstock.job import split_lane
from penstock.wording import counted, listed, span

# What waits to be claimed, by queue and task.


class Waiting(Struct, frozen=True):
    """Ready jobs of one task in one queue, as far as was looked; times in seconds.

    `seconds` is how long the oldest waits, `paused` how long the queue has been paused, if it is.
    """

    queue: str
    task: str
    jobs: int
    seconds: float
    example: int
    paused: float | None = None


async def waiting(patient: Patient) -> list[Waiting]:
    """Of each queue the first in line."""
    return await patient.ask(Waiting, "examine_ready_jobs", patient.limits.sample_jobs)


# The lanes in which jobs wait, and what may hold them.


class WaitingLane(Struct, frozen=True, kw_only=True):
    """One lane with ready jobs; times in seconds."""

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
    """How many jobs of a fair queue are in no tenant's lane."""
    shut_by: str | None = None
    """A limit that lets none of its jobs run."""


async def waiting_lanes(patient: Patient) -> list[WaitingLane]:
    """By queue and name, as many as the doctor looks at."""
    most, laneless = patient.limits.sample_jobs, patient.limits.laneless_jobs
    return await patient.ask(_lane, "examine_lanes", most, laneless)


def _lane(**row: Any) -> WaitingLane:
    name, limits = split_lane(row.pop("lane"))
    window = lane_window(row)
    return WaitingLane(name=name, limits=limits, window=window, **row)


# Are there ready jobs that no living worker serves?


class Service(Struct, frozen=True):
    """What waits, ordered by queue, and who is there for it."""

    waiting: tuple[Waiting, ...]
    alive: tuple[WorkerInsight, ...]

    def of(self, queue: str) -> list[WorkerInsight]:
        return [worker for worker in self.alive if queue in worker.queues]


async def read_unserved(patient: Patient) -> Service:
    return Service(tuple(await waiting(patient)), tuple(living(await workforce(patient))))


def judge_unserved(service: Service, limits: Limits) -> Sequence[Finding]:
    # What is paused is meant to wait, and has a check of its own.
    patiently = [each for each in service.waiting if each.paused is None]
    findings: list[Finding] = []
    for queue, grouped in groupby(patiently, key=lambda line: line.queue):
        lines, workers = list(grouped), service.of(queue)
        late = [line for line in lines if line.seconds >= limits.unserved]
        if workers:
            findings += _by_task(late, workers, limits)
        elif late:
            findings.append(_queue(error, queue, late, limits))
        elif service.alive:
            # Others have started, so its worker is hardly just about to.
            findings.append(_queue(warning, queue, lines, limits))
    if findings:
        return findings
    if patiently and not service.alive:
        return [
            ok(f"No job has been ready for {span(limits.unserved)} yet, but there is no worker.")
        ]
    return [ok("Every queue and task with ready jobs has a worker.")]


def _queue(
    verdict: Callable[..., Finding], queue: str, lines: Sequence[Waiting], limits: Limits
) -> Finding:
    jobs = sum(line.jobs for line in lines)
    return verdict(
        f"The queue {queue} has {counted(jobs, 'job', limits.sample_jobs)} and no living worker; "
        f"the oldest has waited for {span(max(line.seconds for line in lines))}. Tasks: "
        f"{listed(line.task for line in lines)}.",
        "Start a worker for it where the code of these tasks is:",
        f"penstock work APP --queue {queue}",
    )


def _by_task(
    lines: Sequence[Waiting], workers: Sequence[WorkerInsight], limits: Limits
) -> list[Finding]:
    return [
        error(
            f"The queue {line.queue} has {counted(line.jobs, 'job', limits.sample_jobs)} of the "
            f"task {line.task}, which none of its workers has; the oldest has waited for "
            f"{span(line.seconds)}. Its workers: {listed(worker.name for worker in workers)}.",
            "Deploy the code that has it, or register the task with the app that they run.",
            f"penstock jobs show {line.example}",
        )
        for line in lines
        if not any(worker.may_run(line.task) for worker in workers)
    ]


UNSERVED = Check(
    "unserved-jobs",
    Group.JOBS,
    "Are there ready jobs in a queue, or of a task, that no living worker serves?",
    read_unserved,
    judge_unserved,
)


# Do jobs wait for a worker that serves their tenant?


class Dedication(Struct, frozen=True):
    """The lanes in which jobs wait, and the living workers with the tenants that they serve."""

    lanes: tuple[WaitingLane, ...]
    alive: tuple[WorkerInsight, ...]


async def read_unserved_tenants(patient: Patient) -> Dedication:
    alive = living(await workforce(patient))
    if all(worker.tenants is None and not worker.except_tenants for worker in alive):
        return Dedication((), tuple(alive))
    return Dedication(tuple(await waiting_lanes(patient)), tuple(alive))


def judge_unserved_tenants(dedication: Dedication, limits: Limits) -> Sequence[Finding]:
    alone: dict[str, list[WaitingLane]] = {}
    for lane in dedication.lanes:
        # A queue that nobody serves at all has a check of its own.
        serving = [worker for worker in dedication.alive if lane.queue in worker.queues]
        if (
            serving
            and lane.seconds >= limits.unserved
            and not any(worker.serves(lane.name) for worker in serving)
        ):
            alone.setdefault(lane.queue, []).append(lane)
    findings = [_unserved_tenants_finding(queue, lanes) for queue, lanes in alone.items()]
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
    Group.JOBS,
    "Do jobs wait for a worker that serves their tenant?",
    read_unserved_tenants,
    judge_unserved_tenants,
)


# Do jobs wait in queues that are paused?


async def read_paused(patient: Patient) -> list[Waiting]:
    return [line for line in await waiting(patient) if line.paused is not None]


def judge_paused(lines: Sequence[Waiting], limits: Limits) -> Sequence[Finding]:
    findings = [
        _paused_finding(queue, list(lines), limits)
        for queue, lines in groupby(lines, key=lambda line: line.queue)
    ]
    return findings or [ok("No job waits in a queue that is paused.")]


def _paused_finding(queue: str, lines: Sequence[Waiting], limits: Limits) -> Finding:
    jobs = sum(line.jobs for line in lines)
    return warning(
        f"The queue {queue} has been paused for {span(lines[0].paused or 0)} with "
        f"{counted(jobs, 'job', limits.sample_jobs)} in it, the oldest of which has waited for "
        f"{span(max(line.seconds for line in lines))}.",
        "Let its workers go on, unless it is meant to wait:",
        f"penstock queues resume {queue}",
    )


PAUSED = Check(
    "paused-queues",
    Group.JOBS,
    "Do jobs wait in queues that are paused?",
    read_paused,
    judge_paused,
)


# Do jobs wait in lanes that are paused?


async def read_paused_lanes(patient: Patient) -> list[WaitingLane]:
    return [lane for lane in await waiting_lanes(patient) if lane.paused is not None]


def judge_paused_lanes(lanes: Sequence[WaitingLane], _: Limits) -> Sequence[Finding]:
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
    Group.JOBS,
    "Do jobs wait in lanes that are paused?",
    read_paused_lanes,
    judge_paused_lanes,
)


# Do jobs wait for a window that never opens?


async def read_windows(patient: Patient) -> list[WaitingLane]:
    return [lane for lane in await waiting_lanes(patient) if lane.window.is_shut]


def judge_windows(lanes: Sequence[WaitingLane], _: Limits) -> Sequence[Finding]:
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
    Group.JOBS,
    "Do jobs wait for a window that never opens?",
    read_windows,
    judge_windows,
)


# Do jobs wait for a limit that lets none of them run?


MOST = 10


async def read_shut_limits(patient: Patient) -> list[WaitingLane]:
    return [lane for lane in await waiting_lanes(patient) if lane.shut_by is not None]


def judge_shut_limits(lanes: Sequence[WaitingLane], _: Limits) -> Sequence[Finding]:
    by_key: dict[str, list[WaitingLane]] = {}
    for lane in lanes:
        by_key.setdefault(lane.shut_by or "", []).append(lane)
    findings = [_shut_limits_finding(key, by_key[key]) for key in list(by_key)[:MOST]]
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
    Group.JOBS,
    "Do jobs wait for a limit that lets none of them run?",
    read_shut_limits,
    judge_shut_limits,
)


# Is a bucket closed for long?


class Closed(Struct, frozen=True):
    """A key that is closed for so many seconds more."""

    key: str
    seconds: float


async def read_closed_buckets(patient: Patient) -> list[Closed]:
    return await patient.ask(Closed, "examine_closed_buckets")


def judge_closed_buckets(closed: Sequence[Closed], limits: Limits) -> Sequence[Finding]:
    findings = [_closed_buckets_finding(each) for each in closed if each.seconds >= limits.closed]
    return findings or [ok(f"No bucket is closed for {span(limits.closed)} or longer.")]


def _closed_buckets_finding(closed: Closed) -> Finding:
    return warning(
        f"The bucket {closed.key} is closed for another {span(closed.seconds)}: no job that needs "
        "it begins.",
        "Somebody's answer said Retry-After, or an operator closed it. If that is a mistake, open "
        "it:",
        f"penstock limits open {shlex.quote(closed.key)}",
    )


CLOSED_BUCKETS = Check(
    "closed-buckets",
    Group.JOBS,
    "Is a bucket closed for long?",
    read_closed_buckets,
    judge_closed_buckets,
)


# Do the jobs of a fair queue take turns?


async def read_laneless(patient: Patient) -> list[WaitingLane]:
    return [lane for lane in await waiting_lanes(patient) if lane.fair]


def judge_laneless(lanes: Sequence[WaitingLane], limits: Limits) -> Sequence[Finding]:
    findings = []
    for queue, grouped in groupby(lanes, key=lambda lane: lane.queue):
        waiting = list(grouped)
        jobs = sum(lane.laneless or 0 for lane in waiting)
        if jobs >= limits.laneless_jobs and not any(lane.name for lane in waiting):
            findings.append(_laneless_finding(queue, jobs))
    return findings or [ok("Jobs of fair queues are in lanes that take turns.")]


def _laneless_finding(queue: str, jobs: int) -> Finding:
    return warning(
        f"The queue {queue} is fair, but {counted(jobs, 'job', jobs)} wait in it without a tenant, "
        "or what else makes its lanes: they all stand in one line.",
        "Enqueue them with a tenant, or with a lane; or let something else make the lanes:",
        f"penstock queues set {queue} --lane-key args.customer",
    )


LANELESS = Check(
    "laneless-jobs",
    Group.JOBS,
    "Do the jobs of fair queues take turns?",
    read_laneless,
    judge_laneless,
)
