"""Do schedules fire, and can what they enqueue be run?"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from msgspec import Struct

from penstock.doctor.check import Check, Group
from penstock.doctor.finding import Finding, error, ok, warning
from penstock.doctor.limits import Limits
from penstock.doctor.patient import Patient
from penstock.wording import counted, listed, span


class Troubled(Struct, frozen=True):
    """A schedule with something the matter; `overdue` is how long ago its tick was, in seconds."""

    name: str
    task: str
    is_active: bool
    has_task: bool
    overdue: float


async def read(patient: Patient) -> list[Troubled]:
    return await patient.ask(Troubled, "examine_schedules", patient.limits.sample_jobs)


def judge(schedules: Sequence[Troubled], limits: Limits) -> Sequence[Finding]:
    return list(_findings(schedules, limits)) or [ok("Schedules fire in time.")]


def _findings(schedules: Sequence[Troubled], limits: Limits) -> Iterator[Finding]:
    active = [each for each in schedules if each.is_active]
    if late := [each for each in active if each.overdue >= limits.overdue]:
        longest = span(max(each.overdue for each in late))
        yield error(
            f"{counted(len(late), 'schedule')} should have fired, the first one {longest} ago: "
            f"{listed(each.name for each in late)}.",
            "The leader fires them, and its log says why one cannot: see the checks workers and "
            "leader.",
            _show(late[0]),
        )
    if strange := [each for each in active if not each.has_task]:
        yield warning(
            f"{counted(len(strange), 'schedule')} enqueue tasks that no living worker has: "
            f"{listed(f'{each.name} ({each.task})' for each in strange)}.",
            "Deploy the code that has them, or let the schedule enqueue another task.",
            _show(strange[0]),
        )
    if undeclared := [each.name for each in schedules if not each.is_active]:
        yield warning(
            f"{counted(len(undeclared), 'schedule')} came from code and rest, since no living "
            f"worker declares them: {listed(undeclared)}.",
            "Start workers with the code that does; or, if it was taken out, remove them:",
            *(f"penstock schedules remove {shlex.quote(name)}" for name in undeclared[:5]),
        )


def _show(schedule: Troubled) -> str:
    return f"penstock schedules show {shlex.quote(schedule.name)}"


SCHEDULES = Check(
    "schedules",
    Group.JOBS,
    "Do schedules fire, and can what they enqueue be run?",
    read,
    judge,
)
