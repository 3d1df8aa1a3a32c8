"""Do jobs wait in queues that are paused?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from penstock.doctor.check import Check, Group
from penstock.doctor.finding import Finding, ok, warning
from penstock.doctor.limits import Limits
from penstock.doctor.patient import Patient
from penstock.doctor.waiting import Waiting, waiting
from penstock.wording import counted, span


async def read(patient: Patient) -> list[Waiting]:
    return [line for line in await waiting(patient) if line.paused is not None]


def judge(lines: Sequence[Waiting], limits: Limits) -> Sequence[Finding]:
    findings = [
        _finding(queue, list(lines), limits)
        for queue, lines in groupby(lines, key=lambda line: line.queue)
    ]
    return findings or [ok("No job waits in a queue that is paused.")]


def _finding(queue: str, lines: Sequence[Waiting], limits: Limits) -> Finding:
    jobs = sum(line.jobs for line in lines)
    return warning(
        f"The queue {queue} has been paused for {span(lines[0].paused or 0)} with "
        f"{counted(jobs, 'job', limits.sample_jobs)} in it, the oldest of which has waited for "
        f"{span(max(line.seconds for line in lines))}.",
        "Let its workers go on, unless it is meant to wait:",
        f"penstock queues resume {queue}",
    )


PAUSED = Check("paused-queues", Group.JOBS, "Do jobs wait in queues that are paused?", read, judge)
