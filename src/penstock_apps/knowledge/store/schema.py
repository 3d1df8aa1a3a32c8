"""The tables of knowledge, beside those of the queue."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from penstock import Database, hosts
from penstock.migrate import (
    applied_migrations,
    create_ledger,
    find_former_name,
    has_rls,
    lock_migrations,
    rename_statements,
)
from penstock.sql import quote, roles
from penstock_apps.knowledge.errors import TablesMissing, TablesRenamed, VectorMissing
from penstock_apps.knowledge.sql import functions, migration, migrations, script, statement

MIGRATION_NAMES = frozenset(name for _, name in migrations())


def schema_of(engine: str) -> str:
    """Return the schema of knowledge, which is named after the queue's."""
    return f"{engine}_knowledge"


async def migrate(database: Database) -> list[str]:
    """Bring the tables up to date in one transaction, and return the names of the changes.

    Row level security is on if it is on for the queue, otherwise off. If the schema was renamed,
    its functions are changed to use the new name.
    """
    assert database.url is not None
    schema = schema_of(database.schema)
    connection = await hosts.connect(database.url, statement_cache_size=0)
    try:
        secured = await has_rls(connection, schema=database.schema)
        async with connection.transaction(isolation="read_committed"):
            await lock_migrations(connection, schema)
            former = await find_former_name(connection, schema, list(functions()))
            for piece in (
                [] if former is None else await rename_statements(connection, schema, former)
            ):
                await connection.execute(piece)
            applied = {each.number for each in await applied_migrations(connection, schema)}
            due = [(number, name) for number, name in migrations() if number not in applied]
            if due:
                await _apply_migrations(connection, schema, due)
            # Knowledge is secured as the queue is, whichever of them was migrated first.
            if secured or await connection.fetchval(statement("has_rls", schema), schema):
                name = "on" if secured else "off"
                await connection.execute(script(name, schema, roles(database.schema)))
    finally:
        await connection.close()
    renamed = [] if former is None else [f"the rename from {former}"]
    return renamed + [name for _, name in due]


async def is_there(database: Database) -> bool:
    """Return whether the database has any tables of knowledge."""
    return bool(await _applied(database))


async def renamed(database: Database) -> dict[str, str]:
    """Return {schema: former name} if the schema was renamed and its functions were not changed.

    Otherwise, return an empty dict.
    """
    schema = schema_of(database.schema)
    async with _connect(database) as connection:
        former = await find_former_name(connection, schema, list(functions()))
    return {} if former is None else {schema: former}


async def check(database: Database) -> None:
    """Raise TablesMissing or TablesRenamed if the tables are not as this version needs them."""
    schema = schema_of(database.schema)
    async with _connect(database) as connection:
        applied = {each.number for each in await applied_migrations(connection, schema)}
        if missing := {number for number, _ in migrations()} - applied:
            left: str | None = await connection.fetchval(statement("find_left_behind", schema))
            raise TablesMissing(schema, len(missing) < len(migrations()), left)
        former = await find_former_name(connection, schema, list(functions()))
    if former is not None:
        raise TablesRenamed(schema, former)


async def _applied(database: Database) -> set[int]:
    async with _connect(database) as connection:
        return {
            each.number for each in await applied_migrations(connection, schema_of(database.schema))
        }


@asynccontextmanager
async def _connect(database: Database) -> AsyncIterator[Any]:
    connection = await hosts.connect(database.url, statement_cache_size=0)
    try:
        yield connection
    finally:
        await connection.close()


async def vector_schema(connection: Any) -> str:
    """Return the schema of pgvector, and create the extension first if it is missing.

    Raise VectorMissing if the extension cannot be created.
    """
    query = statement("find_vector_schema", "")
    existing: str | None = await connection.fetchval(query)
    if existing is not None:
        return existing
    try:
        async with connection.transaction():
            await connection.execute("CREATE EXTENSION vector")
    except asyncpg.PostgresError as error:
        raise VectorMissing(str(error)) from error
    created: str = await connection.fetchval(query)
    return created


async def _apply_migrations(connection: Any, schema: str, due: list[tuple[int, str]]) -> None:
    vector = await vector_schema(connection)
    await create_ledger(connection, schema)
    await connection.execute("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0")
    # With this path, the migration finds types and operators of pgvector in any schema.
    await connection.execute(f"SET LOCAL search_path = {quote(vector)}")
    for number, name in due:
        await connection.execute(migration(name, "up", schema, vector))
        await connection.execute(statement("note_migration", schema), number, name)
