"""The lanes in which jobs wait, and what may hold them."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from penstock.doctor.patient import Patient
from penstock.insights import Window
from penstock.insights.queues import lane_window
from penstock.job import split_lane


class WaitingLane(Struct, frozen=True, kw_only=True):
    """One lane with ready jobs; times in seconds."""

    queue: str
    name: str
    limits: tuple[str, ...] = ()
    seconds: float
    """How long the oldest has waited."""
    paused: float | None = None
    """For how long the lane has been paused, if it is."""
    window: Window = Window()
    fair: bool = False
    laneless: int | None = None
    """How many jobs of a fair queue are in no tenant's lane."""
    shut_by: str | None = None
    """A limit that lets none of its jobs run."""


async def waiting_lanes(patient: Patient) -> list[WaitingLane]:
    """By queue and name, as many as the doctor looks at."""
    most, laneless = patient.limits.sample_jobs, patient.limits.laneless_jobs
    return await patient.ask(_lane, "examine_lanes", most, laneless)


def _lane(**row: Any) -> WaitingLane:
    name, limits = split_lane(row.pop("lane"))
    window = lane_window(row)
    return WaitingLane(name=name, limits=limits, window=window, **row)
