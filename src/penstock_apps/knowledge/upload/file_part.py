"""A file of a form, while it arrives."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from penstock_apps.knowledge.upload.received import Oversized, Received
from penstock_apps.knowledge.upload.shown import shown_name

BLOCK = 1024 * 1024


class FilePart:
    """Hashed and written in large blocks by a thread: the loop goes on meanwhile."""

    def __init__(
        self, name: str, field: str, media_type: str, folder: Path, most_bytes: int
    ) -> None:
        self._nameless = not name
        self._name = shown_name(name)
        self._field = field
        self._media_type = media_type
        self._most = most_bytes
        self._path = folder / f"{secrets.token_hex(16)}.part"
        self._out: BinaryIO | None = None
        self._hashed = sha256()
        self._bytes = 0
        self._blocks: list[bytes] = []
        self._waiting = 0
        self._work: asyncio.Task[None] | None = None

    async def write(self, data: bytes) -> None:
        self._bytes += len(data)
        if self._bytes > self._most:
            self._blocks.clear()
            return
        self._blocks.append(data)
        self._waiting += len(data)
        if self._waiting >= BLOCK:
            await self._in_thread(self._flush)

    async def finish(self) -> Received | Oversized | None:
        if self._nameless and not self._bytes:
            return None  # An input of a browser's form that nobody has put a file into.
        if self._bytes > self._most:
            await self.abandon()
            return Oversized(self._name, self._field, self._bytes, self._most)
        await self._in_thread(self._close)
        return Received(
            self._name,
            self._field,
            self._media_type,
            self._path,
            self._hashed.digest(),
            self._bytes,
        )

    async def abandon(self) -> None:
        """Leave nothing behind, also when a thread still writes."""
        if self._work is not None:
            await asyncio.wait([self._work])
        await asyncio.to_thread(self._remove)

    async def _in_thread(self, call: Callable[[], None]) -> None:
        # Who is cancelled here does not stop the thread: `abandon` waits for it.
        self._work = asyncio.create_task(asyncio.to_thread(call))
        await asyncio.shield(self._work)

    def _flush(self) -> None:
        if self._out is None:
            self._out = self._path.open("xb")
        for block in self._blocks:
            self._hashed.update(block)
            self._out.write(block)
        self._blocks.clear()
        self._waiting = 0

    def _close(self) -> None:
        self._flush()
        assert self._out is not None
        self._out.close()

    def _remove(self) -> None:
        if self._out is not None:
            self._out.close()
        self._path.unlink(missing_ok=True)
