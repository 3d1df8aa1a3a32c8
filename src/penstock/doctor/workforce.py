"""The workers, as their leases tell of them."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.doctor.patient import Patient
from penstock.insights import Insights, WorkerInsight


async def workforce(patient: Patient) -> list[WorkerInsight]:
    """The workers that live, and those that ended without giving their lease back."""
    async with patient.bounds() as connection:
        found = await Insights(patient.store, connection).workers()
    return [worker for worker in found if worker.kind == "worker"]


def living(workers: Iterable[WorkerInsight]) -> list[WorkerInsight]:
    return [worker for worker in workers if worker.is_alive]
