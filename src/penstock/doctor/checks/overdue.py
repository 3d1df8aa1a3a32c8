"""Do scheduled jobs become ready when their time has come?"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from penstock.doctor.check import Check, Group
from penstock.doctor.finding import Finding, error, ok
from penstock.doctor.limits import Limits
from penstock.doctor.patient import Patient
from penstock.sql import quote
from penstock.wording import counted, span


class Due(Struct, frozen=True):
    """Scheduled jobs whose time has come; `seconds` is how long ago the first one's did."""

    jobs: int
    seconds: float | None


class Overdue(Struct, frozen=True):
    schema: str
    due: Due


async def read(patient: Patient) -> Overdue:
    [due] = await patient.ask(Due, "examine_overdue_jobs", patient.limits.sample_jobs)
    return Overdue(patient.schema, due)


def judge(overdue: Overdue, limits: Limits) -> Sequence[Finding]:
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
    Group.JOBS,
    "Do scheduled jobs become ready when their time has come?",
    read,
    judge,
)
