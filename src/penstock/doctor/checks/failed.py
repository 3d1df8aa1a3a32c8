"""Have many jobs failed for good within the last hour, and of what?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from msgspec import Struct

from penstock.doctor.check import Check, Group
from penstock.doctor.finding import Finding, error, ok, warning
from penstock.doctor.limits import Limits
from penstock.doctor.patient import Patient
from penstock.wording import counted

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


async def read(patient: Patient) -> list[Failures]:
    """The commonest first."""
    return await patient.ask(Failures, "examine_failures", patient.limits.sample_jobs)


def judge(failures: Sequence[Failures], limits: Limits) -> Sequence[Finding]:
    by_task = groupby(sorted(failures, key=lambda each: each.task), key=lambda each: each.task)
    findings = [
        _finding(task, kinds, limits)
        for task, kinds in ((task, list(kinds)) for task, kinds in by_task)
        if sum(kind.jobs for kind in kinds) >= limits.failures_warning_hourly
    ]
    total = sum(each.jobs for each in failures)
    return findings or [ok(f"{counted(total, 'job')} failed for good in the last hour.")]


def _finding(task: str, kinds: Sequence[Failures], limits: Limits) -> Finding:
    jobs = sum(kind.jobs for kind in kinds)
    common = max(kinds, key=lambda kind: kind.jobs)
    detail = f": {common.message}" if common.message else ""
    return (error if jobs >= limits.failures_error_hourly else warning)(
        f"{counted(jobs, 'job', limits.sample_jobs)} of the task {task} failed for good in the "
        f"last hour; {common.jobs:,} of them ({common.reason}) with "
        f"{common.error or 'no error'}{detail}",
        POISON if common.reason == "poison" else "Look at one, mend the cause, then redrive them:",
        f"penstock jobs show {common.example}",
        f"penstock dead summary --task {task}",
        f"penstock dead redrive --task {task} --rate 10/s",
    )


FAILED = Check(
    "failed-jobs",
    Group.JOBS,
    "Have many jobs failed for good within the last hour, and of what?",
    read,
    judge,
)
