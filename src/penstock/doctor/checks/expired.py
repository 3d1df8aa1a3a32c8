"""Are partitions dropped once their day has passed?"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from msgspec import Struct

from penstock.doctor.check import Check, Group
from penstock.doctor.checks.clock import Told
from penstock.doctor.finding import Finding, ok, warning
from penstock.doctor.limits import Limits
from penstock.doctor.patient import Patient
from penstock.wording import counted, listed


class Expired(Struct, frozen=True):
    """A partition whose day has passed, and the statements that take it away."""

    name: str
    attached: bool
    pending: bool
    detach: str
    finalize: str
    drop: str

    @property
    def steps(self) -> list[str]:
        first = [self.finalize] if self.pending else [self.detach] if self.attached else []
        return [f"{step};" for step in (*first, self.drop)]


async def read(patient: Patient) -> list[Expired]:
    """Those whose day passed some days ago: the leader looks every hour."""
    [told] = await patient.ask(Told, "tell_time")
    since = told.now - timedelta(days=patient.limits.expired_days)
    return await patient.ask(Expired, "expired_partitions", patient.schema, since)


def judge(expired: Sequence[Expired], limits: Limits) -> Sequence[Finding]:
    if not expired:
        return [ok("No partition of the history is kept beyond its day.")]
    return [
        warning(
            f"{counted(len(expired), 'partition')} of the history should have been dropped "
            f"{limits.expired_days} days ago or earlier: "
            f"{listed(each.name for each in expired)}.",
            "The leader drops them, as the owner of the tables, unless a reader holds them: see "
            "the checks leader, rights and snapshots. By hand, each line on its own:",
            *(step for each in expired for step in each.steps),
        )
    ]


EXPIRED = Check(
    "expired-partitions",
    Group.STORAGE,
    "Are partitions dropped once their day has passed?",
    read,
    judge,
)
