"""The comparison, as a peer's process sees it: one JSON document a line.

It sends the orders, says go with an empty line and stop by closing; it is told Ready, Progress and
Finished, which penstock.bench.measured describes. That module is out of reach here.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any


class Bench:
    """Orders in, messages out."""

    def __init__(self, reader: asyncio.StreamReader, orders: dict[str, Any]) -> None:
        self._reader = reader
        self.orders = orders

    @classmethod
    async def connect(cls) -> Bench:
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        return cls(reader, json.loads(await reader.readline()))

    async def go(self) -> None:
        """Say that everything is imported, and wait for the start."""
        say("Ready")
        await self._reader.readline()

    async def stop(self) -> None:
        await self._reader.read()


def say(message: str, **what: Any) -> None:
    sys.stdout.write(json.dumps({"type": message, **what}) + "\n")
    sys.stdout.flush()
