"""A file of a form, while it arrives."""

from __future__ import annotations

import secrets
from pathlib import Path

from penstock_apps.knowledge.shown import shown_name
from penstock_apps.knowledge.sink import Sink
from penstock_apps.knowledge.upload.received import Oversized, Received


class FilePart:
    """Written to a file with a name of ours; one that becomes too large is not kept."""

    def __init__(
        self, name: str, field: str, media_type: str, folder: Path, most_bytes: int
    ) -> None:
        self._nameless = not name
        self._name = shown_name(name)
        self._field = field
        self._media_type = media_type
        self._most = most_bytes
        self._bytes = 0
        self._sink = Sink(folder / f"{secrets.token_hex(16)}.part")

    async def write(self, data: bytes) -> None:
        self._bytes += len(data)
        if self._bytes <= self._most:
            await self._sink.write(data)

    async def finish(self) -> Received | Oversized | None:
        if self._nameless and not self._bytes:
            return None  # An input of a browser's form that nobody has put a file into.
        if self._bytes > self._most:
            await self._sink.abandon()
            return Oversized(self._name, self._field, self._bytes, self._most)
        digest = await self._sink.finish()
        return Received(
            self._name, self._field, self._media_type, self._sink.path, digest, self._bytes
        )

    async def abandon(self) -> None:
        await self._sink.abandon()
