"""A file that arrives in pieces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

BLOCK = 1024 * 1024


class Sink:
    """Hashed and written in large blocks by a thread: the loop goes on meanwhile.

    sink = Sink(path)
    await sink.write(piece)
    digest = await sink.finish()
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bytes = 0
        self._hashed = sha256()
        self._out: BinaryIO | None = None
        self._pieces: list[bytes] = []
        self._waiting = 0
        self._work: asyncio.Task[None] | None = None

    async def write(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._waiting += len(piece)
        self.bytes += len(piece)
        if self._waiting >= BLOCK:
            await self._in_thread(self._flush)

    async def finish(self) -> bytes:
        """The SHA-256 of all that came."""
        await self._in_thread(self._close)
        return self._hashed.digest()

    async def abandon(self) -> None:
        """Leave nothing behind, also when a thread still writes."""
        if self._work is not None:
            await asyncio.wait([self._work])
        self._pieces.clear()
        await asyncio.to_thread(self._remove)

    async def _in_thread(self, call: Callable[[], None]) -> None:
        # Who is cancelled here does not stop the thread: `abandon` waits for it.
        self._work = asyncio.create_task(asyncio.to_thread(call))
        await asyncio.shield(self._work)

    def _flush(self) -> None:
        if self._out is None:
            self._out = self.path.open("wb")
        for piece in self._pieces:
            self._hashed.update(piece)
            self._out.write(piece)
        self._pieces.clear()
        self._waiting = 0

    def _close(self) -> None:
        self._flush()
        if self._out is not None:
            self._out.close()

    def _remove(self) -> None:
        if self._out is not None:
            self._out.close()
            self.path.unlink(missing_ok=True)
