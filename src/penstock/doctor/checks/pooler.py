"""Does a pooler stand between us and Postgres, and in which mode?"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from penstock.doctor.check import Check, Group
from penstock.doctor.finding import Finding, ok
from penstock.doctor.limits import Limits
from penstock.doctor.patient import Patient
from penstock.store import connect
from penstock.store.pooler import lends, stands_between


class Way(Struct, frozen=True):
    """How a connection of ours gets to Postgres."""

    pooled: bool
    shared: bool = False


async def read(patient: Patient) -> Way:
    async with patient.bounds() as connection:
        pooled = await stands_between(connection)
    return Way(pooled, shared=pooled and await _is_shared(patient))


async def _is_shared(patient: Patient) -> bool:
    other = await connect(patient.url, name="penstock doctor")
    try:
        async with asyncio.timeout(patient.limits.reading):
            return await lends(patient.connection, other)
    finally:
        await other.close(timeout=1)


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
