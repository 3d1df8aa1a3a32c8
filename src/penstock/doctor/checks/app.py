"""Check whether an app can run the jobs that wait in the queue."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from penstock.doctor.check import (
    Check,
    CheckContext,
    CheckGroup,
    CheckLimits,
    Code,
    Finding,
    error,
    ok,
)
from penstock.errors import ArgumentsDoNotFit
from penstock.wording import counted, listed

JOBS_DECODED_PER_TASK = 5


class WaitingJob(Struct, frozen=True):
    """One waiting job. `jobs` is how many jobs of its task wait in its queue, up to a bound."""

    id: int
    task: str
    queue: str
    args: str
    args_version: int
    jobs: int


class Comparison(Struct, frozen=True):
    code: Code
    waiting: tuple[WaitingJob, ...]


async def read(context: CheckContext) -> Comparison:
    assert context.code is not None
    waiting = await context.fetch(
        WaitingJob, "examine_waiting_jobs", context.limits.sample_jobs, JOBS_DECODED_PER_TASK
    )
    return Comparison(context.code, tuple(waiting))


def judge(comparison: Comparison, limits: CheckLimits) -> Sequence[Finding]:
    code = comparison.code
    findings = [
        *_without_task(comparison, limits),
        *_misfits(comparison),
        *_missing_resources(code),
    ]
    tasks = counted(len(code.tasks), "task")
    return findings or [ok(f"The app {code.name} with its {tasks} can run all that waits.")]


def _without_task(comparison: Comparison, limits: CheckLimits) -> list[Finding]:
    code = comparison.code
    unknown: dict[tuple[str, str], WaitingJob] = {}
    for job in comparison.waiting:
        if job.task not in code.tasks:
            unknown.setdefault((job.task, job.queue), job)
    return [
        error(
            f"The queue {job.queue} has {counted(job.jobs, 'job', limits.sample_jobs)} of the task "
            f"{job.task}, and the app {code.name} has no such task.",
            "If another app runs them, all is well. If the task was renamed, register it under its "
            "old name as well; look at one:",
            f"penstock jobs show {job.id}",
        )
        for job in unknown.values()
    ]


def _misfits(comparison: Comparison) -> list[Finding]:
    findings = []
    for job in comparison.waiting:
        if (problem := _decode_problem(comparison.code, job)) is not None:
            findings.append(
                error(
                    f"Job {job.id} cannot be run by the app {comparison.code.name}. {problem}",
                    "Take the parameter back, give it a default, or add an upcaster; look at it:",
                    f"penstock jobs show {job.id}",
                )
            )
    return findings


def _decode_problem(code: Code, job: WaitingJob) -> str | None:
    task = code.tasks.find(job.task)
    if task is None:
        return None
    try:
        task.decode(job.args, job.args_version)
    except ArgumentsDoNotFit as problem:
        return str(problem)
    return None


def _missing_resources(code: Code) -> list[Finding]:
    findings = []
    for task in code.tasks:
        names = [kind.__name__ for kind in task.settings.resources]
        if missing := [name for name in names if name not in code.resources]:
            findings.append(
                error(
                    f"The task {task.name} needs {listed(missing)}, which the app {code.name} does "
                    "not open.",
                    "Say how with @app.resource, or take it from the task's resources.",
                )
            )
    return findings


APP = Check(
    "app",
    CheckGroup.JOBS,
    "With --app: has the app the tasks and resources for what waits, and do the arguments fit?",
    read,
    judge,
)
