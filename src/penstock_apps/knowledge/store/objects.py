"""The rows of stored files: whose they are, and who is about to use them."""

from __future__ import annotations

from collections.abc import Sequence

from penstock_apps.knowledge.store.shelves import Connection, Shelves


class Objects:
    """Rows that are written before a file is stored, and removed after it."""

    def __init__(self, shelves: Shelves) -> None:
        self._sql = shelves.statement

    async def hold(
        self, on: Connection, tenant: str, files: Sequence[tuple[bytes, str, int]]
    ) -> None:
        """Files, as digest, name and size, are about to be stored."""
        digests, names, sizes = zip(*dict.fromkeys(files), strict=True)
        await on.execute(self._sql("hold_objects"), tenant, list(digests), list(names), list(sizes))

    async def release(self, on: Connection, tenant: str, digests: Sequence[bytes]) -> None:
        """They are stored, and the documents that need them are written."""
        await on.execute(self._sql("release_objects"), tenant, list(digests))
