"""The rows of stored files. A request holds the files that it is about to use."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from penstock_apps.knowledge.errors import ObjectsGone
from penstock_apps.knowledge.store.tables import Connection, TablePool


class Objects:
    """Reads and writes the rows of files. A row is written before its file and removed after it."""

    def __init__(self, tables: TablePool) -> None:
        self._sql = tables.statement

    async def hold(
        self, on: Connection, tenant: str, files: Sequence[tuple[bytes, str, int]]
    ) -> None:
        """Hold files, given as (digest, name, size), so that no sweep removes them.

        A hold ends when it is released, or after an hour.
        """
        if files:
            digests, names, sizes = map(list, zip(*dict.fromkeys(files), strict=True))
            await on.execute(self._sql("hold_objects"), tenant, digests, names, sizes)

    async def release(self, on: Connection, tenant: str, digests: Sequence[bytes]) -> None:
        """Release files once documents refer to them; raise ObjectsGone if a sweep removed some."""
        unique = list(dict.fromkeys(digests))
        released = await on.fetch(self._sql("release_objects"), tenant, unique)
        if len(released) < len(unique):
            raise ObjectsGone(len(unique) - len(released))

    async def lock_unneeded(
        self, on: Connection, tenant: str, digests: Sequence[bytes]
    ) -> dict[bytes, str]:
        """Lock files that nothing needs, until the transaction ends, and return their names."""
        locked = await self._lock(on, tenant, digests)
        return await self._list_names(on, "list_unneeded_objects", tenant, locked)

    async def lock_expired(
        self, on: Connection, tenant: str, digests: Sequence[bytes]
    ) -> dict[bytes, str]:
        """Lock the files that no unfinished document needs, and mark them as not stored.

        Return their names. The caller has to remove the files in the same transaction.
        """
        locked = await self._lock(on, tenant, digests)
        names = await self._list_names(on, "list_read_objects", tenant, locked)
        await on.execute(self._sql("forget_objects"), tenant, list(names))
        return names

    async def remove(self, on: Connection, tenant: str, digests: Sequence[bytes]) -> None:
        """Remove the rows of files that were removed from the storage."""
        await on.execute(self._sql("remove_objects"), tenant, list(digests))

    async def adopt(
        self, on: Connection, tenant: str, files: Sequence[tuple[bytes, str, int, datetime]]
    ) -> list[bytes]:
        """Add rows for those stored files that have none, and return the digests of these files.

        Each file is given as (digest, name, size, time of storage).
        """
        if not files:
            return []
        columns = map(list, zip(*files, strict=True))
        rows = await on.fetch(self._sql("adopt_objects"), tenant, *columns)
        return [row["digest"] for row in rows]

    async def list_some(self, on: Connection, tenant: str, limit: int) -> list[bytes]:
        """List some files of a tenant."""
        rows = await on.fetch(self._sql("list_objects"), tenant, limit)
        return [row["digest"] for row in rows]

    async def list_orphans(self, on: Connection, limit: int) -> list[tuple[str, bytes]]:
        """List some files that no document needs and nobody holds, as (tenant, digest)."""
        rows = await on.fetch(self._sql("list_orphaned_objects"), limit)
        return [(row["tenant"], row["digest"]) for row in rows]

    async def list_expired(
        self, on: Connection, days: float, limit: int
    ) -> list[tuple[str, bytes]]:
        """List some files that are older than their tenant's retention, as (tenant, digest)."""
        rows = await on.fetch(self._sql("list_expired_objects"), days, limit)
        return [(row["tenant"], row["digest"]) for row in rows]

    async def _lock(self, on: Connection, tenant: str, digests: Sequence[bytes]) -> Sequence[Any]:
        """Lock the rows of files that are about to be removed, without a time limit.

        If a timeout released the locks while the storage is still removing files, another upload
        could rely on a file that is gone a moment later.
        """
        await on.execute(self._sql("lift_timeouts"), True)
        rows: Sequence[Any] = await on.fetch(self._sql("lock_objects"), tenant, list(digests))
        return rows

    async def _list_names(
        self, on: Connection, statement: str, tenant: str, locked: Sequence[Any]
    ) -> dict[bytes, str]:
        digests = [row["digest"] for row in locked]
        rows = await on.fetch(self._sql(statement), tenant, digests)
        return {row["digest"]: row["name"] for row in rows}
