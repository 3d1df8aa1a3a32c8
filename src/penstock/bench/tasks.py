"""The tasks of the measured jobs, which do as little as a job can."""

from __future__ import annotations

import os
import time
from pathlib import Path

from penstock.tasks import task
from penstock.tasks.settings import Process

# The time at which the handler of each `bench.stamp` job began, by its number. It is of the
# monotonic clock, which all processes on a machine share.
stamps: dict[int, float] = {}


@task(name="bench.noop")
async def noop(number: int) -> None:
    """Do nothing. Like every job, it has an argument and a timeout."""


@task(name="bench.noop_sync")
def noop_sync(number: int) -> None:
    """Do nothing in a thread."""


@task(name="bench.isolated", isolate=True)
async def isolated(number: int) -> None:
    """Do nothing in a child process."""


@task(name="bench.isolated_sync", isolate=True)
def isolated_sync(number: int) -> None:
    """Do nothing in a thread of a child process."""


@task(name="bench.dies", isolate=Process(deaths=1))
def dies(lives: str) -> None:
    """Write the start and end time of this handler to a file, and kill its child process."""
    began = time.monotonic()
    with Path(lives).open("a") as file:
        file.write(f"{began} {time.monotonic()}\n")
    os._exit(1)


@task(name="bench.stamp")
async def stamp(number: int) -> None:
    """Record when this handler began."""
    stamps[number] = time.monotonic()
