"""Which migrations lead from where a database is to where it should be."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

import asyncpg

from penstock.errors import BadArgument, SchemaTooNew
from penstock.sql import migration, migrations, quote, statement
from penstock.store import Executor

Connection: TypeAlias = "asyncpg.Connection[Any]"


@dataclass(frozen=True, slots=True)
class MigrationStatus:
    """One migration: applied if it has a time, known if this version of Penstock has its file."""

    number: int
    name: str
    applied_at: datetime | None = None
    known: bool = True


async def lock(connection: Executor, schema: str) -> None:
    """Let nobody else migrate this schema until the transaction ends."""
    await connection.execute(statement("lock_migrations", schema), schema)


async def create(connection: Executor, schema: str) -> None:
    """Make the list if there is none, and the schema for it."""
    found = await connection.fetchrow(statement("has_ledger", schema), schema)
    assert found is not None
    # Asked first: IF NOT EXISTS would still want the right to create schemas in the database.
    if not found["schema"]:
        await connection.execute(f"CREATE SCHEMA {quote(schema)}")
    if not found["ledger"]:
        await connection.execute(statement("create_ledger", schema))


async def applied(connection: Executor, schema: str) -> list[MigrationStatus]:
    """What was applied, in order; nothing if there is no list."""
    found = await connection.fetchrow(statement("has_ledger", schema), schema)
    if found is None or not found["ledger"]:
        return []
    known = {number for number, _ in migrations()}
    return [
        MigrationStatus(row["number"], row["name"], row["applied_at"], row["number"] in known)
        for row in await connection.fetch(statement("list_applied_migrations", schema))
    ]


@dataclass(frozen=True, slots=True)
class Step:
    """One migration, up or down."""

    number: int
    name: str
    direction: Literal["up", "down"]

    def sql(self, schema: str) -> str:
        """The step's statements; the list is changed first, so a step is never taken twice."""
        return f"{self._entry(schema)}\n\n{migration(self.name, self.direction, schema)}"

    def _entry(self, schema: str) -> str:
        table = f"{quote(schema)}.migration"
        if self.direction == "up":
            return f"INSERT INTO {table} (number, name) VALUES ({self.number}, '{self.name}');"
        return f"DELETE FROM {table} WHERE number = {self.number};"


def newest() -> int:
    """The number of the newest migration that this version knows."""
    return migrations()[-1][0]


def plan(applied: Collection[int], to: int | None, schema: str) -> list[Step]:
    """The steps from what was applied to migration `to`, the newest unless given."""
    target = newest() if to is None else to
    if target != 0 and target not in dict(migrations()):
        raise BadArgument("to", to, f"0 or the number of a migration, at most {newest()}")
    found = max(applied, default=0)
    if found > newest():
        raise SchemaTooNew(schema, found, newest())
    down = [
        Step(number, name, "down")
        for number, name in reversed(migrations())
        if number > target and number in applied
    ]
    up = [
        Step(number, name, "up")
        for number, name in migrations()
        if number <= target and number not in applied
    ]
    return down + up
