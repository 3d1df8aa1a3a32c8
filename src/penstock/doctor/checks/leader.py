"""Does a worker lead the maintenance?"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from penstock.doctor.check import Check, Group
from penstock.doctor.finding import Finding, error, ok, skipped
from penstock.doctor.leases import leases, living
from penstock.doctor.limits import Limits
from penstock.doctor.patient import Patient
from penstock.doctor.wording import span


class Seat(Struct, frozen=True):
    """Who was elected last, if that worker's lease is still there, and whether the term runs."""

    worker: str | None
    since: float
    alive: bool


class Leadership(Struct, frozen=True):
    """`oldest` is the age of the oldest living worker, if there is one."""

    seat: Seat | None
    oldest: float | None


async def read(patient: Patient) -> Leadership:
    seats = await patient.ask(Seat, "examine_leader")
    ages = [lease.age for lease in living(await leases(patient))]
    return Leadership(seats[0] if seats else None, max(ages, default=None))


def judge(leadership: Leadership, limits: Limits) -> Sequence[Finding]:
    seat = leadership.seat
    if seat is not None and seat.alive:
        return [ok(f"The worker {seat.worker} has led the maintenance for {span(seat.since)}.")]
    if leadership.oldest is None:
        return [skipped("No worker is alive.")]
    if leadership.oldest < limits.leaderless:
        return [ok("The workers have only just started; one of them will lead in a moment.")]
    return [
        error(
            "There are workers, but none leads the maintenance: no scheduled job becomes ready, "
            "nothing expires, no partition is dropped.",
            "Workers stand for election every two seconds. Look for `Election failed` in their "
            "logs, and at the check rights.",
        )
    ]


LEADER = Check("leader", Group.WORKERS, "Does a worker lead the maintenance?", read, judge)
