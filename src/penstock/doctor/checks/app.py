"""Can the app that was named run what waits in the queue?"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from penstock.doctor.check import Check, Code, Finding, Group, Limits, Patient, error, ok
from penstock.errors import ArgumentsDoNotFit
from penstock.wording import counted, listed

ARGUMENTS_TRIED = 5


class Waiting(Struct, frozen=True):
    """One job that waits; `jobs` is how many of its task do in its queue, as far as was
    looked."""

    id: int
    task: str
    queue: str
    args: str
    args_version: int
    jobs: int


class Comparison(Struct, frozen=True):
    code: Code
    waiting: tuple[Waiting, ...]


async def read(patient: Patient) -> Comparison:
    assert patient.code is not None
    found = await patient.ask(
        Waiting, "examine_waiting_jobs", patient.limits.sample_jobs, ARGUMENTS_TRIED
    )
    return Comparison(patient.code, tuple(found))


def judge(comparison: Comparison, limits: Limits) -> Sequence[Finding]:
    code = comparison.code
    findings = [*_without_task(comparison, limits), *_unfit(comparison), *_unopened(code)]
    tasks = counted(len(code.tasks), "task")
    return findings or [ok(f"The app {code.name} with its {tasks} can run all that waits.")]


def _without_task(comparison: Comparison, limits: Limits) -> list[Finding]:
    code = comparison.code
    unknown: dict[tuple[str, str], Waiting] = {}
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


def _unfit(comparison: Comparison) -> list[Finding]:
    findings = []
    for job in comparison.waiting:
        if (problem := _misfit(comparison.code, job)) is not None:
            findings.append(
                error(
                    f"Job {job.id} cannot be run by the app {comparison.code.name}. {problem}",
                    "Take the parameter back, give it a default, or add an upcaster; look at it:",
                    f"penstock jobs show {job.id}",
                )
            )
    return findings


def _misfit(code: Code, job: Waiting) -> str | None:
    task = code.tasks.find(job.task)
    if task is None:
        return None
    try:
        task.decode(job.args, job.args_version)
    except ArgumentsDoNotFit as problem:
        return str(problem)
    return None


def _unopened(code: Code) -> list[Finding]:
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
    Group.JOBS,
    "With --app: has the app the tasks and resources for what waits, and do the arguments fit?",
    read,
    judge,
)
