"""The list in the database of the migrations that were applied."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

import asyncpg

from penstock.sql import migrations, quote, statement
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
        for row in await connection.fetch(statement("applied_migrations", schema))
    ]
