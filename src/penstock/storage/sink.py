"""Write and hash a file that arrives in pieces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

BLOCK_BYTES = 1024 * 1024


class Sink:
    """Writes and hashes pieces in large blocks, in a thread, so that the event loop stays free.

    sink = Sink(path)
    await sink.write(piece)
    digest = await sink.finish()
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bytes = 0
        self._hasher = sha256()
        self._out: BinaryIO | None = None
        self._pieces: list[bytes] = []
        self._buffered_bytes = 0
        self._thread: asyncio.Task[None] | None = None

    async def write(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._buffered_bytes += len(piece)
        self.bytes += len(piece)
        if self._buffered_bytes >= BLOCK_BYTES:
            await self._run_in_thread(self._flush)

    async def finish(self) -> bytes:
        """Write the rest, close the file, and return its SHA-256."""
        await self._run_in_thread(self._close)
        return self._hasher.digest()

    async def abandon(self) -> None:
        """Close and remove the file. Wait for a thread that still writes to it first."""
        if self._thread is not None:
            await asyncio.wait([self._thread])
        self._pieces.clear()
        await asyncio.to_thread(self._remove)

    async def _run_in_thread(self, call: Callable[[], None]) -> None:
        # A cancellation here does not stop the thread. `abandon` waits for it.
        self._thread = asyncio.create_task(asyncio.to_thread(call))
        await asyncio.shield(self._thread)

    def _flush(self) -> None:
        if self._out is None:
            self._out = self.path.open("wb")
        for piece in self._pieces:
            self._hasher.update(piece)
            self._out.write(piece)
        self._pieces.clear()
        self._buffered_bytes = 0

    def _close(self) -> None:
        self._flush()
        if self._out is not None:
            self._out.close()

    def _remove(self) -> None:
        if self._out is not None:
            self._out.close()
            self.path.unlink(missing_ok=True)
