"""Run the statements that change and read settings, while workers run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from penstock.store.connection import Executor
from penstock.store.store import Store

Row: TypeAlias = dict[str, Any]
Changes: TypeAlias = Mapping[str, Any]


class SettingStatements:
    """Run statements for settings on the connection of the caller.

    `changes` holds only the settings to change. `by` goes into the audit; None stands for the
    database role.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def set_queue(self, on: Executor, name: str, changes: Changes, by: str | None) -> Row:
        return await self._row(on, "set_queue", name, _json(changes), by)

    async def set_lane(
        self, on: Executor, queue: str, lane: str, changes: Changes, by: str | None
    ) -> Row:
        return await self._row(on, "set_lane", queue, lane, _json(changes), by)

    async def set_limit(self, on: Executor, key: str, changes: Changes, by: str | None) -> Row:
        return await self._row(on, "set_limit", key, _json(changes), by)

    async def set_plan(self, on: Executor, name: str, changes: Changes, by: str | None) -> Row:
        return await self._row(on, "set_plan", name, _json(changes), by)

    async def set_tenant(
        self, on: Executor, name: str, changes: Changes, by: str | None
    ) -> Row | None:
        """Change a tenant and return its settings, or None if the plan does not exist."""
        rows = await self._rows(on, "set_tenant", name, _json(changes), by)
        return rows[0] if rows else None

    async def remove_lane(self, on: Executor, queue: str, lane: str, by: str | None) -> bool:
        return bool((await self._row(on, "remove_lane", queue, lane, by))["removed"])

    async def remove_limit(self, on: Executor, key: str, by: str | None) -> bool:
        return bool((await self._row(on, "remove_limit", key, by))["removed"])

    async def remove_plan(self, on: Executor, name: str, by: str | None) -> tuple[bool, int]:
        """Remove a plan, unless tenants have it.

        Return whether it was removed, and how many tenants have it.
        """
        row = await self._row(on, "remove_plan", name, by)
        return row["removed"], row["tenants"]

    async def remove_tenant(self, on: Executor, name: str, by: str | None) -> bool:
        return bool((await self._row(on, "remove_tenant", name, by))["removed"])

    async def set_retention(
        self, on: Executor, state: str, days: int, queue: str, tenant: str, by: str | None
    ) -> Row:
        return await self._row(on, "set_retention", state, days, queue, tenant, by)

    async def remove_retention(
        self, on: Executor, state: str, queue: str, tenant: str, by: str | None
    ) -> bool:
        return bool((await self._row(on, "remove_retention", state, queue, tenant, by))["removed"])

    async def lock_holders(self, on: Executor) -> list[Row]:
        """Return the sessions whose locks prevent new partitions, the oldest first."""
        return await self._rows(on, "find_lock_holders", self._store.schema)

    async def retentions(self, on: Executor) -> list[Row]:
        return await self._rows(on, "list_retentions")

    async def queues(self, on: Executor) -> list[Row]:
        return await self._rows(on, "list_queue_settings")

    async def lanes(self, on: Executor, queue: str, after: str | None, limit: int) -> list[Row]:
        return await self._rows(on, "list_lane_settings", queue, after, limit)

    async def limits(self, on: Executor) -> list[Row]:
        return await self._rows(on, "list_limits")

    async def plans(self, on: Executor) -> list[Row]:
        return await self._rows(on, "list_plans")

    async def tenants(
        self, on: Executor, plan: str | None, after: str | None, limit: int
    ) -> list[Row]:
        return await self._rows(on, "list_tenants", plan, after, limit)

    async def _row(self, on: Executor, name: str, *parameters: Any) -> Row:
        [row] = await self._rows(on, name, *parameters)
        return row

    async def _rows(self, on: Executor, name: str, *parameters: Any) -> list[Row]:
        return [dict(row) for row in await on.fetch(self._store.statement(name), *parameters)]


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
