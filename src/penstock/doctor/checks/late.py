"""Are jobs later than they should be?"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from penstock.doctor.check import Check, Group
from penstock.doctor.finding import Finding, ok, warning
from penstock.doctor.limits import Limits
from penstock.doctor.patient import Patient
from penstock.wording import counted, span


class Late(Struct, frozen=True):
    """The late jobs of one queue; `seconds` is by how much the latest of them is late."""

    queue: str
    jobs: int
    lanes: int
    seconds: float


async def read(patient: Patient) -> list[Late]:
    return await patient.ask(Late, "examine_late_jobs", patient.limits.sample_jobs)


def judge(found: Sequence[Late], limits: Limits) -> Sequence[Finding]:
    findings = [_finding(late, limits) for late in found]
    return findings or [ok("No job is past its soft deadline.")]


def _finding(late: Late, limits: Limits) -> Finding:
    lanes = f" in {counted(late.lanes, 'lane')}" if late.lanes > 1 else ""
    return warning(
        f"The queue {late.queue} has {counted(late.jobs, 'job', limits.sample_jobs)}{lanes} past "
        f"the soft deadline, the latest by {span(late.seconds)}.",
        "See what they wait for: more workers or slots, a limit, a window, or a worker that hangs.",
        f"penstock jobs list --late --queue {late.queue}",
        f"penstock lanes list {late.queue}",
    )


LATE = Check("late-jobs", Group.JOBS, "Are jobs past their soft deadline?", read, judge)
