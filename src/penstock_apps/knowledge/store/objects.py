"""The rows of stored files: whose they are, and who is about to use them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from penstock_apps.knowledge.errors import ObjectsGone
from penstock_apps.knowledge.store.tables import Connection, TablePool


class Objects:
    """Rows that are written before a file is stored, and removed after it."""

    def __init__(self, tables: TablePool) -> None:
        self._sql = tables.statement

    async def hold(
        self, on: Connection, tenant: str, files: Sequence[tuple[bytes, str, int]]
    ) -> None:
        """Files, as digest, name and size, are about to be stored."""
        if files:
            digests, names, sizes = map(list, zip(*dict.fromkeys(files), strict=True))
            await on.execute(self._sql("hold_objects"), tenant, digests, names, sizes)

    async def release(self, on: Connection, tenant: str, digests: Sequence[bytes]) -> None:
        """They are stored, and the documents that need them are written."""
        wanted = list(dict.fromkeys(digests))
        done = await on.fetch(self._sql("release_objects"), tenant, wanted)
        if len(done) < len(wanted):
            raise ObjectsGone(len(wanted) - len(done))

    async def lock_needless(
        self, on: Connection, tenant: str, digests: Sequence[bytes]
    ) -> dict[bytes, str]:
        """Names of files that nothing needs, nor will until the end of the transaction."""
        locked = await self._locked(on, tenant, digests)
        return await self._listed(on, "list_unneeded_objects", tenant, locked)

    async def lock_aged(
        self, on: Connection, tenant: str, digests: Sequence[bytes]
    ) -> dict[bytes, str]:
        """Names of files that no document waits for; none of them says any more that it is stored.

        In this transaction, which is the one that they are removed in.
        """
        locked = await self._locked(on, tenant, digests)
        found = await self._listed(on, "list_read_objects", tenant, locked)
        await on.execute(self._sql("forget_objects"), tenant, list(found))
        return found

    async def remove(self, on: Connection, tenant: str, digests: Sequence[bytes]) -> None:
        """Their files are removed."""
        await on.execute(self._sql("remove_objects"), tenant, list(digests))

    async def adopt(
        self, on: Connection, tenant: str, files: Sequence[tuple[bytes, str, int, datetime]]
    ) -> list[bytes]:
        """Give rows to stored files, as digest, name, size and age, that have none; which."""
        if not files:
            return []
        columns = map(list, zip(*files, strict=True))
        rows = await on.fetch(self._sql("adopt_objects"), tenant, *columns)
        return [row["digest"] for row in rows]

    async def some(self, on: Connection, tenant: str, most: int) -> list[bytes]:
        """Some files of a tenant."""
        rows = await on.fetch(self._sql("list_objects"), tenant, most)
        return [row["digest"] for row in rows]

    async def orphans(self, on: Connection, most: int) -> list[tuple[str, bytes]]:
        """Files, as tenant and digest, that no document needs, among some of all tenants."""
        rows = await on.fetch(self._sql("list_orphaned_objects"), most)
        return [(row["tenant"], row["digest"]) for row in rows]

    async def aged(self, on: Connection, days: float, most: int) -> list[tuple[str, bytes]]:
        """Files, as tenant and digest, that are kept longer than their tenant wants."""
        rows = await on.fetch(self._sql("list_expired_objects"), days, most)
        return [(row["tenant"], row["digest"]) for row in rows]

    async def _locked(self, on: Connection, tenant: str, digests: Sequence[bytes]) -> Sequence[Any]:
        """The rows of files that are about to be removed, however long the storage takes for it.

        If the database ended the transaction meanwhile, somebody else could have a file of these
        for stored, which then goes.
        """
        await on.execute(self._sql("lift_timeouts"), True)
        rows: Sequence[Any] = await on.fetch(self._sql("lock_objects"), tenant, list(digests))
        return rows

    async def _listed(
        self, on: Connection, statement: str, tenant: str, locked: Sequence[Any]
    ) -> dict[bytes, str]:
        digests = [row["digest"] for row in locked]
        rows = await on.fetch(self._sql(statement), tenant, digests)
        return {row["digest"]: row["name"] for row in rows}
