"""Run the statements about API keys, users and their sessions."""

from __future__ import annotations

from typing import Any, TypeAlias

from penstock.store.connection import Executor
from penstock.store.store import Store

Row: TypeAlias = dict[str, Any]


class Access:
    """Run statements of `statements/access.sql` by name, on the connection of the caller."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def row(self, on: Executor, name: str, *parameters: Any) -> Row | None:
        """Return the first row of a statement, or None if it returns no rows."""
        record = await on.fetchrow(self._store.statement(name), *parameters)
        return None if record is None else dict(record)

    async def rows(self, on: Executor, name: str, *parameters: Any) -> list[Row]:
        """Return all rows of a statement."""
        return [dict(row) for row in await on.fetch(self._store.statement(name), *parameters)]
