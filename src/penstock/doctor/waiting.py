"""What waits to be claimed, by queue and task."""

from __future__ import annotations

from msgspec import Struct

from penstock.doctor.patient import Patient


class Waiting(Struct, frozen=True):
    """Ready jobs of one task in one queue, as far as was looked; times in seconds.

    `seconds` is how long the oldest waits, `paused` how long the queue has been paused, if it is.
    """

    queue: str
    task: str
    jobs: int
    seconds: float
    example: int
    paused: float | None = None


async def waiting(patient: Patient) -> list[Waiting]:
    """Of each queue the first in line."""
    return await patient.ask(Waiting, "examine_ready_jobs", patient.limits.sample_jobs)
