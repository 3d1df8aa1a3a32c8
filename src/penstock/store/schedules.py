"""The statements of schedules: for those who fire them, and for those who change them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from penstock.store.connection import Executor
from penstock.store.enqueue import stored_form
from penstock.store.store import Store
from penstock.tasks.schedule import Declaration, Rule

Row = dict[str, Any]


class Due(Struct, frozen=True, kw_only=True):
    """A schedule that has something to do, and what its ticks are worked out from."""

    name: str
    version: int
    cron: str | None
    every: float | None
    timezone: str
    anchor: datetime
    done_until: datetime
    catch_up: str
    start: datetime | None

    @property
    def rule(self) -> Rule:
        return Rule(self.cron, self.every, self.timezone, self.anchor)


class DueSchedules(Struct, frozen=True, kw_only=True):
    """What is due at a moment by the database's clock, and in how many seconds more will be."""

    now: datetime
    due: list[Due]
    next_in: float | None


class Firing(Struct, frozen=True, kw_only=True):
    """What a schedule is to fire. Of those ticks that were missed only the last is named."""

    name: str
    version: int
    start: datetime | None
    missed: datetime | None
    missed_ticks: int
    ticks: list[datetime]
    next_at: datetime


class Schedules:
    """Statements about schedules, on whatever connection the caller has."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # Workers

    async def sync(self, on: Executor, declared: Sequence[Declaration]) -> list[str]:
        """Write what the code declares; the names of those that have changed."""
        forms = [
            {"name": each.name, "wins": each.wins, "definition": stored(each)} for each in declared
        ]
        rows = await on.fetch(self._store.statement("sync_schedules"), _json(forms))
        return [row["name"] for row in rows]

    async def due(self, on: Executor, limit: int, without: Sequence[str]) -> DueSchedules:
        text = await on.fetchval(self._store.statement("list_due_schedules"), limit, list(without))
        return msgspec.json.decode(text, type=DueSchedules)

    async def fire(self, on: Executor, firings: Sequence[Firing]) -> dict[str, str]:
        """Fire schedules; for each 'fired', 'busy' or what the database said against it."""
        rows = await on.fetch(self._store.call("fire_schedules"), _json(firings))
        return {row["name"]: row["answer"] for row in rows}

    async def sweep(self, on: Executor, limit: int) -> int:
        return int(await on.fetchval(self._store.call("sweep_fires"), limit))

    # People

    async def change(
        self, on: Executor, name: str, changes: Mapping[str, Any], by: str | None
    ) -> bool:
        """Change a schedule or make it; False if there is none and too little to make it of."""
        rows = await on.fetch(self._store.statement("set_schedule"), name, _json(changes), by)
        return bool(rows)

    async def pause(self, on: Executor, name: str, by: str | None) -> str | None:
        """Its name; None if there is no such schedule."""
        paused: str | None = await on.fetchval(self._store.statement("pause_schedule"), name, by)
        return paused

    async def resume(self, on: Executor, name: str, by: str | None) -> str | None:
        """Its name; None if there is no such schedule."""
        resumed: str | None = await on.fetchval(self._store.statement("resume_schedule"), name, by)
        return resumed

    async def reset(self, on: Executor, name: str, by: str | None) -> bool | None:
        """Whether it is what the code says now; None if there is no such schedule."""
        rows = await on.fetch(self._store.statement("reset_schedule"), name, by)
        return bool(rows[0]["is_reset"]) if rows else None

    async def remove(self, on: Executor, name: str, by: str | None) -> bool:
        return bool(await on.fetchval(self._store.statement("remove_schedule"), name, by))

    async def run(self, on: Executor, name: str, by: str | None) -> int | None:
        """The job's id; None if there is no such schedule."""
        job: int | None = await on.fetchval(self._store.call("run_schedule"), name, by)
        return job

    async def look(
        self, on: Executor, name: str | None, after: str | None, limit: int
    ) -> list[Row]:
        rows = await on.fetch(self._store.statement("list_schedules"), name, after, limit)
        return [dict(row) for row in rows]

    async def fires(self, on: Executor, name: str, limit: int, after: datetime | None) -> list[Row]:
        rows = await on.fetch(self._store.statement("list_fires"), name, limit, after)
        return [dict(row) for row in rows]


def stored(declared: Declaration) -> dict[str, Any]:
    """All that the code says of a schedule, as its row has it."""
    rule = declared.rule
    return {
        "tenant": declared.request.options.tenant,
        "request": stored_form(declared.request),
        "cron": rule.cron,
        "every": rule.every,
        "timezone": rule.timezone,
        "jitter": declared.jitter,
        "overlap": declared.overlap,
        "catch_up": declared.catch_up,
        "on_start": declared.on_start,
    }


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
