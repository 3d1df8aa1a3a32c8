"""Those who listen, each with a connection of its own and no more than it needs."""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Sequence
from contextlib import suppress

AT_ONCE = 50
PATIENCE = 60.0


class Ear:
    """One event stream: when what it heard was final."""

    def __init__(self, port: int, subject: str) -> None:
        self._port = port
        self._subject = subject
        self.events = 0
        self.last = b""  # the version
        self.ended: list[float] = []
        self.heard = asyncio.Event()

    async def open(self) -> None:
        """Connect, and wait for the present state."""
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        path = f"/api/v1/live/{self._subject}"
        asked = f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
        self._writer.write(asked.encode())
        self._listening = asyncio.create_task(self._listen())
        async with asyncio.timeout(PATIENCE):
            await self.heard.wait()

    async def _listen(self) -> None:
        with suppress(ConnectionError):
            async for line in self._reader:
                if line.startswith(b"id: "):
                    self.last = line
                if line.startswith(b"data: "):
                    self.events += 1
                    if b'"final":true' in line:
                        self.ended.append(time.monotonic())
                    self.heard.set()

    async def end(self) -> None:
        """Wait until the stream has ended."""
        async with asyncio.timeout(PATIENCE):
            await self._listening
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


async def gather(port: int, subjects: Sequence[str]) -> list[Ear]:
    """One who listens to each of the subjects."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    ears = [Ear(port, subject) for subject in subjects]
    for start in range(0, len(ears), AT_ONCE):
        await asyncio.gather(*(ear.open() for ear in ears[start : start + AT_ONCE]))
    return ears
