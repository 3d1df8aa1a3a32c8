"""Plan the migrations that lead from the database's present schema to the one it should have."""

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
    """One migration, and whether it was applied.

    `applied_at` is None if it was not. `known` is False if this version of Penstock has no file for
    the migration.
    """

    number: int
    name: str
    applied_at: datetime | None = None
    known: bool = True


async def lock_migrations(connection: Executor, schema: str) -> None:
    """Wait until no other process migrates this schema, and make others wait until the commit."""
    await connection.execute(statement("lock_migrations", schema), schema)


async def create_ledger(connection: Executor, schema: str) -> None:
    """Create the table of applied migrations, and its schema, unless they exist."""
    existing = await connection.fetchrow(statement("has_ledger", schema), schema)
    assert existing is not None
    # IF NOT EXISTS would need the right to create schemas even if the schema exists.
    if not existing["schema"]:
        await connection.execute(f"CREATE SCHEMA {quote(schema)}")
    if not existing["ledger"]:
        await connection.execute(statement("create_ledger", schema))


async def applied_migrations(connection: Executor, schema: str) -> list[MigrationStatus]:
    """List the applied migrations in order.

    The list is empty if the table of applied migrations does not exist.
    """
    existing = await connection.fetchrow(statement("has_ledger", schema), schema)
    if existing is None or not existing["ledger"]:
        return []
    known = {number for number, _ in migrations()}
    return [
        MigrationStatus(row["number"], row["name"], row["applied_at"], row["number"] in known)
        for row in await connection.fetch(statement("list_applied_migrations", schema))
    ]


@dataclass(frozen=True, slots=True)
class MigrationStep:
    """A migration to apply or to revert."""

    number: int
    name: str
    direction: Literal["up", "down"]

    def sql(self, schema: str) -> str:
        """Return the step's statements.

        The first one inserts or deletes the migration's row in the table of applied migrations, so
        applying a migration twice fails at once.
        """
        return f"{self._ledger_sql(schema)}\n\n{migration(self.name, self.direction, schema)}"

    def _ledger_sql(self, schema: str) -> str:
        table = f"{quote(schema)}.migration"
        if self.direction == "up":
            return f"INSERT INTO {table} (number, name) VALUES ({self.number}, '{self.name}');"
        return f"DELETE FROM {table} WHERE number = {self.number};"


def newest_number() -> int:
    """Return the number of the newest migration that this version knows."""
    return migrations()[-1][0]


def plan_steps(applied: Collection[int], to: int | None, schema: str) -> list[MigrationStep]:
    """Return the steps that lead from the applied migrations to migration `to`, or the newest.

    Raises `SchemaTooNew` if this version does not know the newest applied migration.
    """
    target = newest_number() if to is None else to
    if target != 0 and target not in dict(migrations()):
        raise BadArgument("to", to, f"0 or the number of a migration, at most {newest_number()}")
    current = max(applied, default=0)
    if current > newest_number():
        raise SchemaTooNew(schema, current, newest_number())
    down = [
        MigrationStep(number, name, "down")
        for number, name in reversed(migrations())
        if number > target and number in applied
    ]
    up = [
        MigrationStep(number, name, "up")
        for number, name in migrations()
        if number <= target and number not in applied
    ]
    return down + up
