"""Are there jobs that no worker can run?"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from penstock.doctor.check import Check, Group
from penstock.doctor.finding import Finding, error, ok, warning
from penstock.doctor.limits import Limits
from penstock.doctor.patient import Patient
from penstock.wording import counted, span

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


class Stuck(Struct, frozen=True):
    """Jobs put back for one reason; `seconds` is how long the oldest has been."""

    queue: str
    task: str
    reason: str
    jobs: int
    seconds: float
    example: int
    message: str | None = None


async def read(patient: Patient) -> list[Stuck]:
    return await patient.ask(Stuck, "examine_stuck_jobs", patient.limits.sample_jobs)


def judge(stuck: Sequence[Stuck], limits: Limits) -> Sequence[Finding]:
    return [_finding(each, limits) for each in stuck] or [ok("Workers can run every job they get.")]


def _finding(stuck: Stuck, limits: Limits) -> Finding:
    detail = f" {stuck.message}" if stuck.message else ""
    return (error if stuck.seconds >= limits.stuck_error else warning)(
        f"{counted(stuck.jobs, 'job')} of the task {stuck.task} in the queue {stuck.queue} cannot "
        f"be run ({stuck.reason}), since {span(stuck.seconds)} ago.{detail}",
        REMEDIES.get(stuck.reason, "Look at one:"),
        f"penstock jobs {_verb(stuck.reason)} {stuck.example}",
    )


def _verb(reason: str) -> str:
    return "cancel" if reason == "unknown_task" else "show"


STUCK = Check(
    "stuck-jobs",
    Group.JOBS,
    "Are there jobs that no worker can run: unknown task, unfit arguments, missing resource?",
    read,
    judge,
)
