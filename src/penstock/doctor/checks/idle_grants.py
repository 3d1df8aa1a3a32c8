"""Are slots of a limit waited for although nobody uses them?"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from penstock.doctor.check import Check, Group
from penstock.doctor.finding import Finding, error, ok
from penstock.doctor.limits import Limits
from penstock.doctor.patient import Patient
from penstock.insights import Insights
from penstock.wording import counted, listed


class IdleGrant(Struct, frozen=True):
    """A limit with which nothing runs, who holds its slots and who waits for some."""

    key: str
    slots: int
    granted: int
    holders: list[str] | None
    waiters: list[str]


async def read(patient: Patient) -> list[IdleGrant]:
    """Looks twice: between two jobs, and just after a grant, it is as it should be."""
    first = await _look(patient)
    if not first or await _is_dry(patient):
        return []
    await asyncio.sleep(patient.limits.idle_grant)
    known = {each.key for each in first}
    return [each for each in await _look(patient) if each.key in known]


async def _look(patient: Patient) -> list[IdleGrant]:
    return await patient.ask(IdleGrant, "examine_idle_grants", patient.limits.sample_jobs)


async def _is_dry(patient: Patient) -> bool:
    """Whether a rate may be what the jobs wait for, whose slots are held meanwhile."""
    async with patient.bounds() as connection:
        found = await Insights(patient.store, connection).limits(limit=1000)
    return any(each.closed_until or each.refills_in != 0 for each in found.limits)


def judge(grants: Sequence[IdleGrant], _: Limits) -> Sequence[Finding]:
    findings = [_finding(grant) for grant in grants]
    return findings or [ok("Slots of limits that are waited for are in use.")]


def _finding(grant: IdleGrant) -> Finding:
    holders = f", held by {listed(grant.holders)}" if grant.holders else ""
    wait = "waits" if len(grant.waiters) == 1 else "wait"
    return error(
        f"{listed(grant.waiters)} {wait} for slots of the limit {grant.key}, and no job runs with "
        f"it: {grant.granted} of {counted(grant.slots, 'slot')} are granted{holders}.",
        "Look at the logs of these workers. A worker that is restarted gives back what it holds.",
        "penstock limits list",
    )


IDLE_GRANTS = Check(
    "idle-grants",
    Group.WORKERS,
    "Are slots of a limit waited for although nobody uses them?",
    read,
    judge,
)
