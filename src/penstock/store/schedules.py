"""Run the statements for schedules: those that workers need and those of client calls."""

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


class DueTicks(Struct, frozen=True, kw_only=True):
    """A schedule that is due, with the fields from which its ticks are computed."""

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
    """The schedules that are due `now`, by the database's clock.

    After `next_in` seconds the next schedule is due. None means that no schedule is waiting.
    """

    now: datetime
    due: list[DueTicks]
    next_in: float | None


class Firing(Struct, frozen=True, kw_only=True):
    """The ticks for which a schedule fires, and how many it has missed.

    `missed` is the last of the `missed_ticks` ticks that it has missed.
    """

    name: str
    version: int
    start: datetime | None
    missed: datetime | None
    missed_ticks: int
    ticks: list[datetime]
    next_at: datetime


class ScheduleStatements:
    """Run statements for schedules on the connection of the caller."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # Workers

    async def sync(self, on: Executor, declared: Sequence[Declaration]) -> list[str]:
        """Store the schedules that the code declares. Return the names of those that changed."""
        forms = [
            {
                "name": declaration.name,
                "wins": declaration.wins,
                "definition": stored_definition(declaration),
            }
            for declaration in declared
        ]
        rows = await on.fetch(self._store.statement("sync_schedules"), _json(forms))
        return [row["name"] for row in rows]

    async def due(self, on: Executor, limit: int, without: Sequence[str]) -> DueSchedules:
        text = await on.fetchval(self._store.statement("list_due_schedules"), limit, list(without))
        return msgspec.json.decode(text, type=DueSchedules)

    async def fire(self, on: Executor, firings: Sequence[Firing]) -> dict[str, str]:
        """Fire schedules. Return the result by name: `fired`, `busy` or the database's error."""
        rows = await on.fetch(self._store.call("fire_schedules"), _json(firings))
        return {row["name"]: row["answer"] for row in rows}

    async def sweep(self, on: Executor, limit: int) -> int:
        return int(await on.fetchval(self._store.call("sweep_fires"), limit))

    # People

    async def change(
        self, on: Executor, name: str, changes: Mapping[str, Any], by: str | None
    ) -> bool:
        """Change or create a schedule.

        Return False if the schedule does not exist, and `changes` lacks the request or the times
        that a new one needs.
        """
        rows = await on.fetch(self._store.statement("set_schedule"), name, _json(changes), by)
        return bool(rows)

    async def pause(self, on: Executor, name: str, by: str | None) -> str | None:
        """Pause a schedule. Return its name, or None if it does not exist."""
        paused: str | None = await on.fetchval(self._store.statement("pause_schedule"), name, by)
        return paused

    async def resume(self, on: Executor, name: str, by: str | None) -> str | None:
        """Resume a schedule. Return its name, or None if it does not exist."""
        resumed: str | None = await on.fetchval(self._store.statement("resume_schedule"), name, by)
        return resumed

    async def reset(self, on: Executor, name: str, by: str | None) -> bool | None:
        """Reset a schedule to what the code declares.

        Return False if no code declares it, and None if it does not exist.
        """
        rows = await on.fetch(self._store.statement("reset_schedule"), name, by)
        return bool(rows[0]["is_reset"]) if rows else None

    async def remove(self, on: Executor, name: str, by: str | None) -> bool:
        return bool(await on.fetchval(self._store.statement("remove_schedule"), name, by))

    async def run(self, on: Executor, name: str, by: str | None) -> int | None:
        """Enqueue a schedule's job now. Return its id, or None if the schedule does not exist."""
        job: int | None = await on.fetchval(self._store.call("run_schedule"), name, by)
        return job

    async def page(
        self, on: Executor, name: str | None, after: str | None, limit: int
    ) -> list[Row]:
        """Return a page of schedules. If `name` is set, return only the schedule of that name."""
        rows = await on.fetch(self._store.statement("list_schedules"), name, after, limit)
        return [dict(row) for row in rows]

    async def fires(self, on: Executor, name: str, limit: int, after: datetime | None) -> list[Row]:
        rows = await on.fetch(self._store.statement("list_fires"), name, limit, after)
        return [dict(row) for row in rows]


def stored_definition(declared: Declaration) -> dict[str, Any]:
    """Return what the code declares of a schedule, by the columns of the schedule's row."""
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
