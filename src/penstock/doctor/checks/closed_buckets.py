"""Is a bucket closed for long?"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from msgspec import Struct

from penstock.doctor.check import Check, Group
from penstock.doctor.finding import Finding, ok, warning
from penstock.doctor.limits import Limits
from penstock.doctor.patient import Patient
from penstock.wording import span


class Closed(Struct, frozen=True):
    """A key that is closed for so many seconds more."""

    key: str
    seconds: float


async def read(patient: Patient) -> list[Closed]:
    return await patient.ask(Closed, "examine_closed_buckets")


def judge(closed: Sequence[Closed], limits: Limits) -> Sequence[Finding]:
    findings = [_finding(each) for each in closed if each.seconds >= limits.closed]
    return findings or [ok(f"No bucket is closed for {span(limits.closed)} or longer.")]


def _finding(closed: Closed) -> Finding:
    return warning(
        f"The bucket {closed.key} is closed for another {span(closed.seconds)}: no job that needs "
        "it begins.",
        "Somebody's answer said Retry-After, or an operator closed it. If that is a mistake, open "
        "it:",
        f"penstock limits open {shlex.quote(closed.key)}",
    )


CLOSED_BUCKETS = Check("closed-buckets", Group.JOBS, "Is a bucket closed for long?", read, judge)
