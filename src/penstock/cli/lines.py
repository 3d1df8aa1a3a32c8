"""Lines of standard input, one after the other."""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import AsyncGenerator
from typing import IO

# A read that blocks does not notice a Ctrl-C that came in the moment before it: so often we look.
LOOK = 0.2
CHUNK = 65_536


async def lines(stream: IO[bytes]) -> AsyncGenerator[bytes, None]:
    """Each line of a file, a pipe or a terminal, without its end."""
    descriptor, begun = stream.fileno(), bytearray()
    while chunk := await _chunk(descriptor):
        begun += chunk
        if b"\n" in chunk:
            *whole, begun = begun.split(b"\n")
            for line in whole:
                yield bytes(line)
    if begun:
        yield bytes(begun)


async def _chunk(descriptor: int) -> bytes:
    """What there is to read; empty at the end."""
    # A descriptor of a file cannot be given to the loop, and a thread that reads cannot be ended.
    while True:
        ready, _, _ = select.select([descriptor], [], [], LOOK)
        await asyncio.sleep(0)
        if ready:
            return os.read(descriptor, CHUNK)
