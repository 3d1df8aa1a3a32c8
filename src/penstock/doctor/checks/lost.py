"""Are there running jobs whose worker is gone, and that nobody takes back?"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from penstock.doctor.check import Check, Group
from penstock.doctor.finding import Finding, error, ok
from penstock.doctor.limits import Limits
from penstock.doctor.patient import Patient
from penstock.sql import quote
from penstock.wording import counted, span


class Lost(Struct, frozen=True):
    """Running jobs of one worker that is gone; `seconds` is for how long."""

    worker: str | None
    jobs: int
    seconds: float
    example: int


class LostJobs(Struct, frozen=True):
    schema: str
    found: tuple[Lost, ...]


async def read(patient: Patient) -> LostJobs:
    found = await patient.ask(Lost, "examine_lost_jobs", patient.limits.sample_jobs)
    return LostJobs(patient.schema, tuple(found))


def judge(lost: LostJobs, limits: Limits) -> Sequence[Finding]:
    left = [each for each in lost.found if each.seconds >= limits.lost]
    if left:
        return [_finding(lost.schema, each, limits) for each in left]
    waiting = sum(each.jobs for each in lost.found)
    also = f" {counted(waiting, 'job')} will be in a moment." if waiting else ""
    return [ok(f"No job waits to be taken back from a lost worker.{also}")]


def _finding(schema: str, lost: Lost, limits: Limits) -> Finding:
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
    Group.JOBS,
    "Are there running jobs whose worker is gone, and that nobody takes back?",
    read,
    judge,
)
