"""How often a worker looks through a queue for jobs of which it was not told."""

import asyncio
from typing import Any

import pytest

from penstock.lifecycle import DatabaseHealth
from penstock.telemetry import Events
from penstock.worker.claim.claimer import Scanner
from penstock.worker.claim.queue import QueueState


class EmptyQueue:
    """A database in which a look takes so long, and finds nothing."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def scan_lanes(self, *_: Any) -> list[Any]:
        await asyncio.sleep(self._seconds)
        return []


async def pause_after(seconds: float, min_interval: float) -> float:
    """How long it rests after the second of two such looks."""
    scanner = Scanner(
        QueueState("default", 10, 100),
        None,  # type: ignore[arg-type]
        EmptyQueue(seconds),  # type: ignore[arg-type]
        DatabaseHealth(Events()),
        min_interval=lambda: min_interval,
        on_found=lambda: None,
    )
    await scanner.tick()
    return await scanner.tick()


async def test_a_look_around_takes_a_twentieth_of_the_time_at_most() -> None:
    assert await pause_after(0.05, min_interval=0.1) >= 20 * 0.05


@pytest.mark.parametrize("min_interval", [3600.0, 7200.0])
async def test_a_quick_look_around_is_repeated_as_often_as_is_set(min_interval: float) -> None:
    assert await pause_after(0.0, min_interval) == min_interval
