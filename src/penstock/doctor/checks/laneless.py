"""Do the jobs of a fair queue take turns?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from penstock.doctor.check import Check, Group
from penstock.doctor.finding import Finding, ok, warning
from penstock.doctor.lanes import WaitingLane, waiting_lanes
from penstock.doctor.limits import Limits
from penstock.doctor.patient import Patient
from penstock.wording import counted


async def read(patient: Patient) -> list[WaitingLane]:
    return [lane for lane in await waiting_lanes(patient) if lane.fair]


def judge(lanes: Sequence[WaitingLane], limits: Limits) -> Sequence[Finding]:
    findings = []
    for queue, grouped in groupby(lanes, key=lambda lane: lane.queue):
        waiting = list(grouped)
        jobs = sum(lane.laneless or 0 for lane in waiting)
        if jobs >= limits.laneless_jobs and not any(lane.name for lane in waiting):
            findings.append(_finding(queue, jobs))
    return findings or [ok("Jobs of fair queues are in lanes that take turns.")]


def _finding(queue: str, jobs: int) -> Finding:
    return warning(
        f"The queue {queue} is fair, but {counted(jobs, 'job', jobs)} wait in it without a tenant, "
        "or what else makes its lanes: they all stand in one line.",
        "Enqueue them with a tenant, or with a lane; or let something else make the lanes:",
        f"penstock queues set {queue} --lane-key args.customer",
    )


LANELESS = Check("laneless-jobs", Group.JOBS, "Do the jobs of fair queues take turns?", read, judge)
