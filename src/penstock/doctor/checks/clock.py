"""Does this machine's clock agree with the database's?"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from penstock.doctor.check import Check, Group
from penstock.doctor.finding import Finding, error, ok, warning
from penstock.doctor.limits import Limits
from penstock.doctor.patient import Patient
from penstock.wording import span

TRIES = 3


class Reading(Struct, frozen=True):
    """The database's clock, read between two looks at ours."""

    sent: datetime
    theirs: datetime
    received: datetime

    @property
    def doubt(self) -> timedelta:
        """It was read at some moment in between."""
        return (self.received - self.sent) / 2

    @property
    def ahead(self) -> timedelta:
        """How far the database's clock is ahead of ours."""
        return self.theirs - (self.sent + self.doubt)


class Told(Struct, frozen=True):
    now: datetime


async def read(patient: Patient) -> Reading:
    """The quickest of several readings is the surest."""
    readings = []
    for _ in range(TRIES):
        sent = patient.clock()
        [told] = await patient.ask(Told, "tell_time")
        readings.append(Reading(sent, told.now, patient.clock()))
    return min(readings, key=lambda reading: reading.doubt)


def judge(reading: Reading, limits: Limits) -> Sequence[Finding]:
    apart = abs(reading.ahead.total_seconds())
    sure = apart - reading.doubt.total_seconds()
    if sure <= limits.clock_warning:
        return [ok(f"This machine's clock and the database's agree within {span(apart)}.")]
    which = "behind" if reading.ahead > timedelta() else "ahead of"
    finding = error if sure > limits.clock_error else warning
    return [
        finding(
            f"This machine's clock is {span(apart)} {which} the database's.",
            "The queue goes by the database's time alone; but times that programs here compute "
            "(run_at, deadline) and write to logs are off. Let both machines keep time by NTP:",
            "timedatectl set-ntp true",
        )
    ]


CLOCK = Check(
    "clock",
    Group.DATABASE,
    "Does this machine's clock agree with the database's?",
    read,
    judge,
)
