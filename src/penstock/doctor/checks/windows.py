"""Do jobs wait for a window that never opens?"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import groupby

from penstock.doctor.check import Check, Group
from penstock.doctor.finding import Finding, error, ok
from penstock.doctor.lanes import WaitingLane, waiting_lanes
from penstock.doctor.limits import Limits
from penstock.doctor.patient import Patient
from penstock.wording import counted, listed, span


async def read(patient: Patient) -> list[WaitingLane]:
    return [lane for lane in await waiting_lanes(patient) if lane.window.is_shut]


def judge(lanes: Sequence[WaitingLane], _: Limits) -> Sequence[Finding]:
    findings = [
        _finding(queue, list(shut)) for queue, shut in groupby(lanes, key=lambda lane: lane.queue)
    ]
    return findings or [ok("No job waits for a window that never opens.")]


def _finding(queue: str, lanes: Sequence[WaitingLane]) -> Finding:
    names = list(dict.fromkeys(lane.name or "(no name)" for lane in lanes))
    oldest = max(lane.seconds for lane in lanes)
    return error(
        f"The windows of {counted(len(names), 'lane')} of the queue {queue} never open: "
        f"{listed(names)}. The oldest job has waited for {span(oldest)}.",
        "Set other hours, for the queue or for the lane, or none:",
        f"penstock queues set {queue} --no-window",
        f"penstock lanes set {queue} {shlex.quote(lanes[0].name)} --no-window",
    )


WINDOWS = Check(
    "closed-windows", Group.JOBS, "Do jobs wait for a window that never opens?", read, judge
)
