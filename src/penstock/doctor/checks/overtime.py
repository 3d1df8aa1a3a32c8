"""Are there jobs that run on past their timeout?"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from penstock.doctor.check import Check, Group
from penstock.doctor.finding import Finding, ok, warning
from penstock.doctor.limits import Limits
from penstock.doctor.patient import Patient
from penstock.wording import counted, span


class Overtime(Struct, frozen=True):
    """Running jobs of one task on one worker; `seconds` is how far past their timeout."""

    task: str
    worker: str | None
    jobs: int
    seconds: float
    example: int


async def read(patient: Patient) -> list[Overtime]:
    limits = patient.limits
    return await patient.ask(Overtime, "examine_overtime_jobs", limits.overtime, limits.sample_jobs)


def judge(overtime: Sequence[Overtime], _: Limits) -> Sequence[Finding]:
    return [_finding(each) for each in overtime] or [ok("No job runs past its timeout.")]


def _finding(overtime: Overtime) -> Finding:
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
    Group.JOBS,
    "Are there jobs that run on past their timeout?",
    read,
    judge,
)
