"""Do batches come to their end?"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from penstock.doctor.check import Check, Group
from penstock.doctor.finding import Finding, error, ok, warning
from penstock.doctor.limits import Limits
from penstock.doctor.patient import Patient
from penstock.wording import span

SHOWN = 5


class Unfinished(Struct, frozen=True):
    """A batch that is open without a change for so long, or over and not finished."""

    id: int
    name: str | None
    is_open: bool
    seconds: float


async def read(patient: Patient) -> list[Unfinished]:
    limits = patient.limits
    return await patient.ask(
        Unfinished, "examine_batches", limits.batch_open, limits.batch_over, limits.sample_jobs
    )


def judge(found: Sequence[Unfinished], limits: Limits) -> Sequence[Finding]:
    forgotten = [each for each in found if each.is_open]
    held_up = [each for each in found if not each.is_open]
    findings = []
    if forgotten:
        findings.append(_forgotten(forgotten))
    if held_up:
        findings.append(_held_up(held_up))
    return findings or [ok("No batch is forgotten or held up.")]


def _forgotten(batches: Sequence[Unfinished]) -> Finding:
    return warning(
        f"{_named(batches, 'is', 'are')} open without a change for up to "
        f"{span(batches[0].seconds)}: whoever opened it may have died. It will never be finished, "
        "and its callbacks will not come.",
        "Close it if all is in it that was to be, else cancel it:",
        f"penstock batches close {batches[0].id}",
    )


def _held_up(batches: Sequence[Unfinished]) -> Finding:
    return error(
        f"{_named(batches, 'is', 'are')} over, since {span(batches[0].seconds)} ago at most, and "
        "not finished.",
        "Workers do that: see the check workers. If there is one, the database refuses a "
        "callback; the server's log says why.",
    )


def _named(batches: Sequence[Unfinished], one: str, many: str) -> str:
    names = [f"{each.id} ({each.name})" if each.name else str(each.id) for each in batches[:SHOWN]]
    more = f" and {len(batches) - SHOWN} more" if len(batches) > SHOWN else ""
    if len(batches) == 1:
        return f"Batch {names[0]} {one}"
    return f"Batches {', '.join(names)}{more} {many}"


BATCHES = Check(
    "batches",
    Group.JOBS,
    "Do batches come to their end, or are they open, or over, without anybody finishing them?",
    read,
    judge,
)
