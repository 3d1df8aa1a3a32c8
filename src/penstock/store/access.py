"""The statements about keys, people and their logins."""

from __future__ import annotations

from typing import Any, TypeAlias

from penstock.store.connection import Executor
from penstock.store.store import Store

Row: TypeAlias = dict[str, Any]


class Access:
    """Who may use the service, on whatever connection the caller has."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def row(self, on: Executor, name: str, *parameters: Any) -> Row | None:
        """What one statement answers, if anything."""
        found = await on.fetchrow(self._store.statement(name), *parameters)
        return None if found is None else dict(found)

    async def rows(self, on: Executor, name: str, *parameters: Any) -> list[Row]:
        """All that one statement answers."""
        return [dict(row) for row in await on.fetch(self._store.statement(name), *parameters)]
