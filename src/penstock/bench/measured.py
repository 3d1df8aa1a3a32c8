"""Inside a measured process: samples of its progress, and what it used."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Any

from penstock.bench import usage
from penstock.bench.messages import Finished, Orders, Progress, decode_orders, say

EVERY = 0.01
TELL_EVERY = 0.2


class Parent:
    """The bench, as a measured process sees it."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    @classmethod
    async def connect(cls) -> Parent:
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        return cls(reader)

    async def orders(self) -> Orders:
        return decode_orders(await self._reader.readline())

    async def go(self) -> None:
        await self._reader.readline()

    async def stop(self) -> None:
        await self._reader.read()


class Meter:
    """Looks every few milliseconds how many jobs are settled, and tells the bench now and then."""

    def __init__(self, settled: Callable[[], int]) -> None:
        self._settled = settled
        self._samples: list[tuple[float, int]] = []
        self._told_at = 0.0
        self._cpu = usage.cpu_seconds()

    async def watch(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(EVERY)

    def look(self) -> None:
        now, settled = time.monotonic(), self._settled()
        if not self._samples or self._samples[-1][1] != settled:
            self._samples.append((now, settled))
        if now - self._told_at > TELL_EVERY:
            self._tell(now, settled)

    def _tell(self, now: float, settled: int) -> None:
        self._told_at = now
        say(Progress(settled, usage.rss()))

    def finished(self, **more: Any) -> Finished:
        """Look once more; all that was seen."""
        self.look()
        self._tell(*self._samples[-1])
        return Finished(self._samples, usage.cpu_seconds() - self._cpu, usage.peak_rss(), **more)
