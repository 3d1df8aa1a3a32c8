"""A stored file while it is being read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock_apps.knowledge.storage.answering import answering

if TYPE_CHECKING:
    from obstore import GetResult

BLOCK = 1024 * 1024


class Opened:
    """Gives block after block; `bytes` is known from the start."""

    def __init__(self, result: GetResult, name: str, patience: float) -> None:
        self.name = name
        self.bytes = result.meta["size"]
        self._blocks = result.stream(min_chunk_size=BLOCK)
        self._patience = patience

    def __aiter__(self) -> Opened:
        return self

    async def __anext__(self) -> bytes:
        async with answering(f"read {self.name}", self._patience, self.name):
            block = await anext(self._blocks, None)
        if block is None:
            raise StopAsyncIteration
        return bytes(block)
