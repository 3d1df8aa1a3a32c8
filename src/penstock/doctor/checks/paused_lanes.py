"""Do jobs wait in lanes that are paused?"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import groupby

from penstock.doctor.check import Check, Group
from penstock.doctor.finding import Finding, ok, warning
from penstock.doctor.lanes import WaitingLane, waiting_lanes
from penstock.doctor.limits import Limits
from penstock.doctor.patient import Patient
from penstock.wording import counted, listed, span


async def read(patient: Patient) -> list[WaitingLane]:
    return [lane for lane in await waiting_lanes(patient) if lane.paused is not None]


def judge(lanes: Sequence[WaitingLane], _: Limits) -> Sequence[Finding]:
    findings = [
        _finding(queue, list(paused))
        for queue, paused in groupby(lanes, key=lambda lane: lane.queue)
    ]
    return findings or [ok("No job waits in a lane that is paused.")]


def _finding(queue: str, lanes: Sequence[WaitingLane]) -> Finding:
    names = list(dict.fromkeys(lane.name for lane in lanes))
    oldest = max(lane.seconds for lane in lanes)
    return warning(
        f"Jobs wait in {counted(len(names), 'lane')} of the queue {queue} that are paused: "
        f"{listed(names)}. The oldest has waited for {span(oldest)}.",
        "Let workers go on with them, unless they are meant to wait:",
        *(f"penstock lanes set {queue} {shlex.quote(name)} --resume" for name in names[:5]),
    )


PAUSED_LANES = Check(
    "paused-lanes", Group.JOBS, "Do jobs wait in lanes that are paused?", read, judge
)
