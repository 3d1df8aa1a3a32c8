"""Worker sessions as their leases tell of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from penstock.doctor.patient import Patient


class Info(Struct, frozen=True):
    """What a worker says of itself; anybody's SQL may have opened a lease and said nothing."""

    host: str = ""
    pid: int = 0
    penstock: str = ""
    queues: dict[str, int] = {}
    tasks: frozenset[str] = frozenset()
    hears: bool = True
    missing_resources: dict[str, str] = {}


class Lease(Struct, frozen=True):
    """A worker session, with times in seconds: `silent` since its last heartbeat."""

    id: int
    worker: str
    age: float
    silent: float
    length: float
    alive: bool
    info: Info = Info()


async def leases(patient: Patient) -> list[Lease]:
    """The worker sessions that live, and those that ended without giving their lease back."""
    return await patient.ask(_lease, "examine_leases")


def living(all_leases: Iterable[Lease]) -> list[Lease]:
    return [lease for lease in all_leases if lease.alive]


def _lease(*, info: str, **columns: Any) -> Lease:
    try:
        told = msgspec.json.decode(info, type=Info)
    except msgspec.ValidationError:
        told = Info()
    return Lease(info=told, **columns)
