"""The tasks that are measured: as little work as a job can be."""

from __future__ import annotations

import os
import time
from pathlib import Path

from penstock.tasks import task
from penstock.tasks.settings import Process

# When the handler began with each stamped job, on the clock that all processes here share.
stamps: dict[int, float] = {}


@task(name="bench.noop")
async def noop(number: int) -> None:
    """Does nothing, with one argument; like every job it has a timeout."""


@task(name="bench.noop_sync")
def noop_sync(number: int) -> None:
    """The same in a thread."""


@task(name="bench.isolated", isolate=True)
async def isolated(number: int) -> None:
    """The same in a child process."""


@task(name="bench.isolated_sync", isolate=True)
def isolated_sync(number: int) -> None:
    """The same in a thread of a child process."""


@task(name="bench.dies", isolate=Process(deaths=1))
def dies(lives: str) -> None:
    """Notes when it began and when its child process ended, which it brings about."""
    began = time.monotonic()
    with Path(lives).open("a") as file:
        file.write(f"{began} {time.monotonic()}\n")
    os._exit(1)


@task(name="bench.stamp")
async def stamp(number: int) -> None:
    """Notes when it began."""
    stamps[number] = time.monotonic()
