"""Does a pooler stand between us and Postgres, and in which mode?"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from penstock.doctor.check import Check, Group
from penstock.doctor.finding import Finding, ok
from penstock.doctor.limits import Limits
from penstock.doctor.patient import Patient
from penstock.store import connect
from penstock.store.pooler import stands_between

TRIES = 5


class Way(Struct, frozen=True):
    """How a connection of ours gets to Postgres."""

    pooled: bool
    shared: bool = False


class Backend(Struct, frozen=True):
    pid: int


async def read(patient: Patient) -> Way:
    async with patient.bounds() as connection:
        pooled = await stands_between(connection)
    return Way(pooled, shared=pooled and await _is_shared(patient))


async def _is_shared(patient: Patient) -> bool:
    """Whether two connections of ours, both open, are served by one and the same backend.

    Then it is lent for a transaction at a time. If never, it may have been by chance.
    """
    other = await connect(patient.url, name="penstock doctor")
    second = Patient(other, patient.url, patient.schema, patient.limits)
    try:
        seen = [{await _backend(each) for _ in range(TRIES)} for each in (patient, second)]
    finally:
        await other.close(timeout=1)
    return bool(seen[0] & seen[1])


async def _backend(patient: Patient) -> int:
    [backend] = await patient.ask(Backend, "examine_backend")
    return backend.pid


def judge(way: Way, _: Limits) -> Sequence[Finding]:
    if not way.pooled:
        return [ok("Nothing stands between here and Postgres.")]
    if not way.shared:
        return [ok("A pooler stands between; each connection seems to have a backend of its own.")]
    return [
        ok(
            "A pooler in transaction mode stands between.",
            "Everything works through it; only notifications do not pass. The check notifications "
            "says whether workers hear them by another way.",
        )
    ]


POOLER = Check(
    "pooler",
    Group.DATABASE,
    "Does a pooler such as PgBouncer stand between, and in which mode?",
    read,
    judge,
)
