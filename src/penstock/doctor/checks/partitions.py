"""Are there partitions for the jobs that will end in the next days?"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

from msgspec import Struct

from penstock.doctor.check import Check, Group
from penstock.doctor.finding import Finding, error, ok, warning
from penstock.doctor.limits import Limits
from penstock.doctor.patient import Patient
from penstock.sql import quote
from penstock.wording import counted

LOOK_AHEAD = 7


class Gap(Struct, frozen=True):
    """The first day without a partition: what ends in `ahead` days and is kept so many has no
    place. `apart`: there is a table for it, but it is not attached, or to the table `parent`."""

    ahead: int
    days: int
    day: date
    apart: bool
    parent: str | None = None


class Ahead(Struct, frozen=True):
    schema: str
    gap: Gap | None


async def read(patient: Patient) -> Ahead:
    gaps = await patient.ask(Gap, "examine_partitions", patient.schema, LOOK_AHEAD)
    return Ahead(patient.schema, gaps[0] if gaps else None)


def judge(ahead: Ahead, limits: Limits) -> Sequence[Finding]:
    gap = ahead.gap
    if gap is None or gap.ahead > limits.partitions_warning_days:
        days = LOOK_AHEAD if gap is None else gap.ahead - 1
        return [ok(f"The history has its partitions {counted(days, 'day')} ahead, or more.")]
    finding = error if gap.ahead <= limits.partitions_error_days else warning
    return [finding(_seen(gap), *_remedy(ahead.schema, gap))]


def _seen(gap: Gap) -> str:
    kept = f"that are kept for {counted(gap.days, 'day')}"
    if gap.ahead == 0:
        return f"The history has no partition for {gap.day}: jobs {kept} cannot end now."
    when = "tomorrow" if gap.ahead == 1 else f"in {gap.ahead} days"
    return f"The history has no partition for {gap.day}: from {when} on jobs {kept} cannot end."


def _remedy(schema: str, gap: Gap) -> tuple[str, ...]:
    if not gap.apart:
        return (
            "Workers make them every hour, as the owner of the tables: see the checks workers and "
            "rights. By hand:",
            f"SELECT {quote(schema)}.ensure_partitions_v1();",
        )
    table = f"{quote(schema)}.{quote(f'job_history_{gap.day:%Y%m%d}')}"
    attach = (
        f"ALTER TABLE {quote(schema)}.job_history ATTACH PARTITION {table} "
        f"FOR VALUES FROM ('{gap.day}') TO ('{gap.day + timedelta(days=1)}');"
    )
    if gap.parent is None:
        return "There is a table for it that is not attached. Attach it:", attach
    return (
        f"There is a table for it, but it is a partition of {gap.parent}. Move it back:",
        f"ALTER TABLE {gap.parent} DETACH PARTITION {table};",
        attach,
    )


PARTITIONS = Check(
    "partitions",
    Group.STORAGE,
    "Has the history its partitions for the next days?",
    read,
    judge,
)
