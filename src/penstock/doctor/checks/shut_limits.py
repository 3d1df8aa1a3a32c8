"""Do jobs wait for a limit that lets none of them run?"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from penstock.doctor.check import Check, Group
from penstock.doctor.finding import Finding, ok, warning
from penstock.doctor.lanes import WaitingLane, waiting_lanes
from penstock.doctor.limits import Limits
from penstock.doctor.patient import Patient
from penstock.wording import counted, listed, span

MOST = 10


async def read(patient: Patient) -> list[WaitingLane]:
    return [lane for lane in await waiting_lanes(patient) if lane.shut_by is not None]


def judge(lanes: Sequence[WaitingLane], _: Limits) -> Sequence[Finding]:
    by_key: dict[str, list[WaitingLane]] = {}
    for lane in lanes:
        by_key.setdefault(lane.shut_by or "", []).append(lane)
    findings = [_finding(key, by_key[key]) for key in list(by_key)[:MOST]]
    return findings or [ok("No job waits for a limit that lets nothing run.")]


def _finding(key: str, lanes: Sequence[WaitingLane]) -> Finding:
    queues = listed(sorted({lane.queue for lane in lanes}))
    oldest = max(lane.seconds for lane in lanes)
    return warning(
        f"The limit {key} has no slots or no rate, and the jobs of {counted(len(lanes), 'lane')} "
        f"wait for it, in the queue {queues}. The oldest has waited for {span(oldest)}.",
        "Give it some, unless it is meant to be an emergency stop:",
        f"penstock limits set {shlex.quote(key)} --slots 10",
    )


SHUT_LIMITS = Check(
    "shut-limits", Group.JOBS, "Do jobs wait for a limit that lets none of them run?", read, judge
)
