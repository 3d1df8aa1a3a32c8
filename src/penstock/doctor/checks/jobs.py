"""Checks of jobs that are stuck, lost, overdue, late or failed, of schedules and batches."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

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
from penstock.sql import quote
from penstock.wording import counted, listed, span

# Are there jobs that no worker can run?


REMEDIES = {
    "unknown_task": "Deploy the code that has this task, or register it with the app that the "
    "workers run; they fail after a day. If it is gone for good, cancel them:",
    "bad_arguments": "Deploy code that takes these arguments, or add an upcaster; they fail after "
    "a day. Look at one:",
    "missing_resource": "The check resources names the worker and the error; they wait as long as "
    "it takes. Look at one:",
    "unmarked": "Their last worker was lost, and the database refuses to mark them as begun: grant "
    "the right or mend the trigger that the error names; they wait as long as it takes. Look at "
    "one:",
}


class StuckJobs(Struct, frozen=True):
    """Jobs of one task in one queue that were put back for one reason.

    `seconds` is how long the oldest of them has been stuck.
    """

    queue: str
    task: str
    reason: str
    jobs: int
    seconds: float
    example: int
    message: str | None = None


async def read_stuck(context: CheckContext) -> list[StuckJobs]:
    return await context.fetch(StuckJobs, "examine_stuck_jobs", context.limits.sample_jobs)


def judge_stuck(stuck: Sequence[StuckJobs], limits: CheckLimits) -> Sequence[Finding]:
    return [_stuck_finding(each, limits) for each in stuck] or [
        ok("Workers can run every job they get.")
    ]


def _stuck_finding(stuck: StuckJobs, limits: CheckLimits) -> Finding:
    detail = f" {stuck.message}" if stuck.message else ""
    verdict = error if stuck.seconds >= limits.stuck_error else warning
    return verdict(
        f"{counted(stuck.jobs, 'job')} of the task {stuck.task} in the queue {stuck.queue} cannot "
        f"be run ({stuck.reason}), since {span(stuck.seconds)} ago.{detail}",
        REMEDIES.get(stuck.reason, "Look at one:"),
        f"penstock jobs {_verb(stuck.reason)} {stuck.example}",
    )


def _verb(reason: str) -> str:
    return "cancel" if reason == "unknown_task" else "show"


STUCK = Check(
    "stuck-jobs",
    CheckGroup.JOBS,
    "Are there jobs that no worker can run: unknown task, unfit arguments, missing resource?",
    read_stuck,
    judge_stuck,
)


# Are there running jobs whose worker is gone, and that nobody takes back?


class LostWorker(Struct, frozen=True):
    """Running jobs of a worker that is gone. `seconds` is for how long it has been gone."""

    worker: str | None
    jobs: int
    seconds: float
    example: int


class LostJobs(Struct, frozen=True):
    schema: str
    by_worker: tuple[LostWorker, ...]


async def read_lost(context: CheckContext) -> LostJobs:
    workers = await context.fetch(LostWorker, "examine_lost_jobs", context.limits.sample_jobs)
    return LostJobs(context.schema, tuple(workers))


def judge_lost(lost: LostJobs, limits: CheckLimits) -> Sequence[Finding]:
    long_gone = [each for each in lost.by_worker if each.seconds >= limits.lost]
    if long_gone:
        return [_lost_finding(lost.schema, each, limits) for each in long_gone]
    waiting = sum(each.jobs for each in lost.by_worker)
    also = f" {counted(waiting, 'job')} will be in a moment." if waiting else ""
    return [ok(f"No job waits to be taken back from a lost worker.{also}")]


def _lost_finding(schema: str, lost: LostWorker, limits: CheckLimits) -> Finding:
    worker = lost.worker or "(long forgotten)"
    jobs = counted(lost.jobs, "job", limits.sample_jobs)
    return error(
        f"The worker {worker} has been gone for {span(lost.seconds)} and still has {jobs}, such as "
        f"{lost.example}.",
        "Every worker takes such jobs back within seconds: start one, for any queue. By hand:",
        f"SELECT count(*) FROM {quote(schema)}.rescue_v1();",
    )


LOST = Check(
    "lost-jobs",
    CheckGroup.JOBS,
    "Are there running jobs whose worker is gone, and that nobody takes back?",
    read_lost,
    judge_lost,
)


# Are there jobs that run on past their timeout?


class Overtime(Struct, frozen=True):
    """Running jobs of one task on one worker. `seconds` is the longest time past their timeout."""

    task: str
    worker: str | None
    jobs: int
    seconds: float
    example: int


async def read_overtime(context: CheckContext) -> list[Overtime]:
    limits = context.limits
    return await context.fetch(
        Overtime, "examine_overtime_jobs", limits.overtime, limits.sample_jobs
    )


def judge_overtime(overtime: Sequence[Overtime], _: CheckLimits) -> Sequence[Finding]:
    return [_overtime_finding(each) for each in overtime] or [ok("No job runs past its timeout.")]


def _overtime_finding(overtime: Overtime) -> Finding:
    return warning(
        f"{counted(overtime.jobs, 'job')} of the task {overtime.task} such as {overtime.example} "
        f"ran {span(overtime.seconds)} past the timeout on {overtime.worker or 'a lost worker'}, "
        "which does not end it.",
        "The leader takes such jobs back: see the check leader. A handler that blocks the event "
        "loop or its thread is named in that worker's log. To end one for good:",
        f"penstock jobs cancel {overtime.example}",
    )


OVERTIME = Check(
    "overtime-jobs",
    CheckGroup.JOBS,
    "Are there jobs that run on past their timeout?",
    read_overtime,
    judge_overtime,
)


# Do scheduled jobs become ready when their time has come?


class DueJobs(Struct, frozen=True):
    """Scheduled jobs that are due. `seconds` is for how long the first of them has been due."""

    jobs: int
    seconds: float | None


class OverdueSchedule(Struct, frozen=True):
    schema: str
    due: DueJobs


async def read_overdue(context: CheckContext) -> OverdueSchedule:
    [due] = await context.fetch(DueJobs, "examine_overdue_jobs", context.limits.sample_jobs)
    return OverdueSchedule(context.schema, due)


def judge_overdue(overdue: OverdueSchedule, limits: CheckLimits) -> Sequence[Finding]:
    due = overdue.due
    if due.seconds is None or due.seconds < limits.overdue:
        return [ok("Scheduled jobs become ready in time.")]
    return [
        error(
            f"{counted(due.jobs, 'job', limits.sample_jobs)} should have become ready, the first "
            f"one {span(due.seconds)} ago.",
            "The leader makes them ready: see the checks workers and leader. By hand:",
            f"SELECT promoted FROM {quote(overdue.schema)}.promote_v1();",
        )
    ]


OVERDUE = Check(
    "overdue-jobs",
    CheckGroup.JOBS,
    "Do scheduled jobs become ready when their time has come?",
    read_overdue,
    judge_overdue,
)


# Do schedules fire, and can what they enqueue be run?


class ScheduleProblem(Struct, frozen=True):
    """A schedule with a problem. `overdue` is how many seconds ago its tick was due.

    It is 0 or less if no tick is overdue.
    """

    name: str
    task: str
    is_active: bool
    has_task: bool
    overdue: float


async def read_schedules(context: CheckContext) -> list[ScheduleProblem]:
    return await context.fetch(ScheduleProblem, "examine_schedules", context.limits.sample_jobs)


def judge_schedules(schedules: Sequence[ScheduleProblem], limits: CheckLimits) -> Sequence[Finding]:
    return list(_schedule_findings(schedules, limits)) or [ok("Schedules fire in time.")]


def _schedule_findings(
    schedules: Sequence[ScheduleProblem], limits: CheckLimits
) -> Iterator[Finding]:
    active = [each for each in schedules if each.is_active]
    if late := [each for each in active if each.overdue >= limits.overdue]:
        longest = span(max(each.overdue for each in late))
        yield error(
            f"{counted(len(late), 'schedule')} should have fired, the first one {longest} ago: "
            f"{listed(each.name for each in late)}.",
            "The leader fires them, and its log says why one cannot: see the checks workers and "
            "leader.",
            _show_command(late[0]),
        )
    if without_task := [each for each in active if not each.has_task]:
        yield warning(
            f"{counted(len(without_task), 'schedule')} enqueue tasks that no living worker has: "
            f"{listed(f'{each.name} ({each.task})' for each in without_task)}.",
            "Deploy the code that has them, or let the schedule enqueue another task.",
            _show_command(without_task[0]),
        )
    if undeclared := [each.name for each in schedules if not each.is_active]:
        yield warning(
            f"{counted(len(undeclared), 'schedule')} from code will not fire, since no living "
            f"worker declares them: {listed(undeclared)}.",
            "Start workers with that code, or remove the schedules if the code is gone:",
            *(f"penstock schedules remove {shlex.quote(name)}" for name in undeclared[:5]),
        )


def _show_command(schedule: ScheduleProblem) -> str:
    return f"penstock schedules show {shlex.quote(schedule.name)}"


SCHEDULES = Check(
    "schedules",
    CheckGroup.JOBS,
    "Do schedules fire, and can what they enqueue be run?",
    read_schedules,
    judge_schedules,
)


# Do batches come to their end?


MAX_BATCHES_NAMED = 5


class UnfinishedBatch(Struct, frozen=True):
    """A batch that has been open for long without a change, or that is not finished although all
    of its jobs have ended.
    """

    id: int
    name: str | None
    is_open: bool
    seconds: float


async def read_batches(context: CheckContext) -> list[UnfinishedBatch]:
    limits = context.limits
    return await context.fetch(
        UnfinishedBatch, "examine_batches", limits.batch_open, limits.batch_over, limits.sample_jobs
    )


def judge_batches(batches: Sequence[UnfinishedBatch], limits: CheckLimits) -> Sequence[Finding]:
    forgotten = [each for each in batches if each.is_open]
    held_up = [each for each in batches if not each.is_open]
    findings = []
    if forgotten:
        findings.append(_forgotten_finding(forgotten))
    if held_up:
        findings.append(_held_up_finding(held_up))
    return findings or [ok("No batch is forgotten or held up.")]


def _forgotten_finding(batches: Sequence[UnfinishedBatch]) -> Finding:
    return warning(
        f"{_subject(batches)} open without a change for up to "
        f"{span(batches[0].seconds)}: whoever opened it may have died. It will never be finished, "
        "and its callbacks will not come.",
        "Close it if it has all its jobs, else cancel it:",
        f"penstock batches close {batches[0].id}",
    )


def _held_up_finding(batches: Sequence[UnfinishedBatch]) -> Finding:
    return error(
        f"{_subject(batches)} over, since {span(batches[0].seconds)} ago at most, and "
        "not finished.",
        "Workers do that: see the check workers. If there is one, the database refuses a "
        "callback; the server's log says why.",
    )


def _subject(batches: Sequence[UnfinishedBatch]) -> str:
    """Return the beginning of a sentence: the names of batches, and "is" or "are"."""
    names = [
        f"{each.id} ({each.name})" if each.name else str(each.id)
        for each in batches[:MAX_BATCHES_NAMED]
    ]
    more = (
        f" and {len(batches) - MAX_BATCHES_NAMED} more" if len(batches) > MAX_BATCHES_NAMED else ""
    )
    if len(batches) == 1:
        return f"Batch {names[0]} is"
    return f"Batches {', '.join(names)}{more} are"


BATCHES = Check(
    "batches",
    CheckGroup.JOBS,
    "Do batches come to their end, or are they open, or over, without anybody finishing them?",
    read_batches,
    judge_batches,
)


# Are jobs later than they should be?


class LateJobs(Struct, frozen=True):
    """The late jobs of one queue. `seconds` is how late the latest of them is."""

    queue: str
    jobs: int
    lanes: int
    seconds: float


async def read_late(context: CheckContext) -> list[LateJobs]:
    return await context.fetch(LateJobs, "examine_late_jobs", context.limits.sample_jobs)


def judge_late(late_jobs: Sequence[LateJobs], limits: CheckLimits) -> Sequence[Finding]:
    findings = [_late_finding(late, limits) for late in late_jobs]
    return findings or [ok("No job is past its soft deadline.")]


def _late_finding(late: LateJobs, limits: CheckLimits) -> Finding:
    lanes = f" in {counted(late.lanes, 'lane')}" if late.lanes > 1 else ""
    return warning(
        f"The queue {late.queue} has {counted(late.jobs, 'job', limits.sample_jobs)}{lanes} past "
        f"the soft deadline, the latest by {span(late.seconds)}.",
        "See what they wait for: more workers or slots, a limit, a window, or a worker that hangs.",
        f"penstock jobs list --late --queue {late.queue}",
        f"penstock lanes list {late.queue}",
    )


LATE = Check(
    "late-jobs", CheckGroup.JOBS, "Are jobs past their soft deadline?", read_late, judge_late
)


# Have many jobs failed for good within the last hour, and of what?


POISON: Final = (
    "Its child processes died, or its workers did. Look at one: it says how and where. Give the "
    "task more memory or time if that is what it takes, or mend the cause, then redrive them:"
)


class Failures(Struct, frozen=True):
    """Jobs of one task that failed for one reason with one type of error."""

    task: str
    reason: str
    error: str | None
    jobs: int
    example: int
    message: str | None = None


async def read_failed(context: CheckContext) -> list[Failures]:
    """Return the failures of the last hour by task, reason and error, the most frequent first."""
    return await context.fetch(Failures, "examine_failures", context.limits.sample_jobs)


def judge_failed(failures: Sequence[Failures], limits: CheckLimits) -> Sequence[Finding]:
    by_task = groupby(sorted(failures, key=lambda each: each.task), key=lambda each: each.task)
    findings = [
        _failed_finding(task, kinds, limits)
        for task, kinds in ((task, list(kinds)) for task, kinds in by_task)
        if sum(kind.jobs for kind in kinds) >= limits.failures_warning_hourly
    ]
    total = sum(each.jobs for each in failures)
    return findings or [ok(f"{counted(total, 'job')} failed for good in the last hour.")]


def _failed_finding(task: str, kinds: Sequence[Failures], limits: CheckLimits) -> Finding:
    jobs = sum(kind.jobs for kind in kinds)
    most_frequent = max(kinds, key=lambda kind: kind.jobs)
    detail = f": {most_frequent.message}" if most_frequent.message else ""
    verdict = error if jobs >= limits.failures_error_hourly else warning
    return verdict(
        f"{counted(jobs, 'job', limits.sample_jobs)} of the task {task} failed for good in the "
        f"last hour; {most_frequent.jobs:,} of them ({most_frequent.reason}) with "
        f"{most_frequent.error or 'no error'}{detail}",
        POISON
        if most_frequent.reason == "poison"
        else "Look at one, mend the cause, then redrive them:",
        f"penstock jobs show {most_frequent.example}",
        f"penstock dead summary --task {task}",
        f"penstock dead redrive --task {task} --rate 10/s",
    )


FAILED = Check(
    "failed-jobs",
    CheckGroup.JOBS,
    "Have many jobs failed for good within the last hour, and of what?",
    read_failed,
    judge_failed,
)
