"""What a measurement needs to know of a queue, ours or another's."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol, TypeAlias

import asyncpg

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


class Place(Protocol):
    """A queue in a schema of its own."""

    @property
    def url(self) -> str: ...

    @property
    def schema(self) -> str: ...

    @property
    def worker(self) -> Sequence[str]:
        """The command that starts a measured worker."""

    async def clear(self) -> None:
        """Back to empty tables."""

    async def refill(self, jobs: int) -> float:
        """Clear, then enqueue no-ops in bulk; the seconds that the enqueue took."""

    async def enqueue(self, number: int) -> None:
        """Enqueue one no-op."""

    async def enqueue_stamp(self, number: int) -> None:
        """Enqueue one job that notes when it began."""

    async def first_claim(self) -> float:
        """When the first claim began, on this machine's monotonic clock."""

    async def left(self) -> int:
        """How many jobs are still live."""

    def held_snapshot(self) -> AbstractAsyncContextManager[None]:
        """Another session in an open transaction: nothing that dies now can be cleaned up."""


async def on_our_clock(connection: Connection, at: datetime) -> float:
    """A time of the server's clock on this machine's monotonic one."""
    before = time.monotonic()
    now: datetime = await connection.fetchval("SELECT clock_timestamp()")
    return (before + time.monotonic()) / 2 - (now - at).total_seconds()
