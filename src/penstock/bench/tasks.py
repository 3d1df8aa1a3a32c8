"""The tasks that are measured: as little work as a job can be."""

from __future__ import annotations

import time

from penstock.tasks import task

# When the handler began with each stamped job, on the clock that all processes here share.
stamps: dict[int, float] = {}


@task(name="bench.noop")
async def noop(number: int) -> None:
    """Does nothing, with one argument; like every job it has a timeout."""


@task(name="bench.stamp")
async def stamp(number: int) -> None:
    """Notes when it began."""
    stamps[number] = time.monotonic()
