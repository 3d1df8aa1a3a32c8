"""Do jobs wait for a worker that serves their tenant?"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from msgspec import Struct

from penstock.doctor.check import Check, Group
from penstock.doctor.finding import Finding, error, ok
from penstock.doctor.lanes import WaitingLane, waiting_lanes
from penstock.doctor.limits import Limits
from penstock.doctor.patient import Patient
from penstock.doctor.workforce import living, workforce
from penstock.insights import WorkerInsight
from penstock.wording import counted, listed, span


class Dedication(Struct, frozen=True):
    """The lanes in which jobs wait, and the living workers with the tenants that they serve."""

    lanes: tuple[WaitingLane, ...]
    alive: tuple[WorkerInsight, ...]


async def read(patient: Patient) -> Dedication:
    alive = living(await workforce(patient))
    if all(worker.tenants is None and not worker.except_tenants for worker in alive):
        return Dedication((), tuple(alive))
    return Dedication(tuple(await waiting_lanes(patient)), tuple(alive))


def judge(dedication: Dedication, limits: Limits) -> Sequence[Finding]:
    alone: dict[str, list[WaitingLane]] = {}
    for lane in dedication.lanes:
        # A queue that nobody serves at all has a check of its own.
        serving = [worker for worker in dedication.alive if lane.queue in worker.queues]
        if (
            serving
            and lane.seconds >= limits.unserved
            and not any(worker.serves(lane.name) for worker in serving)
        ):
            alone.setdefault(lane.queue, []).append(lane)
    findings = [_finding(queue, lanes) for queue, lanes in alone.items()]
    return findings or [ok("Every tenant whose jobs wait has a worker.")]


def _finding(queue: str, lanes: Sequence[WaitingLane]) -> Finding:
    names = list(dict.fromkeys(lane.name for lane in lanes))
    return error(
        f"The queue {queue} has jobs of {counted(len(names), 'tenant')} whom none of its living "
        f"workers serves: {listed(repr(name) for name in names)}. The oldest has waited for "
        f"{span(max(lane.seconds for lane in lanes))}.",
        "Start a worker for them, or one for all tenants:",
        f"penstock work APP --queue {queue} --tenant {shlex.quote(names[0])}",
        f"penstock work APP --queue {queue}",
    )


UNSERVED_TENANTS = Check(
    "unserved-tenants",
    Group.JOBS,
    "Do jobs wait for a worker that serves their tenant?",
    read,
    judge,
)
