"""Apply migrations in one transaction, even if several processes start at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import asyncpg

from penstock import hosts
from penstock.config import Database
from penstock.errors import SOME_DATABASE, SchemaMissing, SchemaRenamed, SchemaTooNew, SchemaTooOld
from penstock.migrate import rls as security
from penstock.migrate.plan import (
    Connection,
    MigrationStatus,
    MigrationStep,
    applied_migrations,
    create_ledger,
    lock_migrations,
    newest_number,
    plan_steps,
)
from penstock.sql import migrations, newest, statement
from penstock.store import Executor
from penstock.store.connection import CONNECT_TIMEOUT


async def has_all_functions(connection: Executor, schema: str) -> bool:
    """Return whether the schema has every function that this version calls."""
    return not await connection.fetch(
        statement("list_missing_functions", schema), schema, newest_functions()
    )


def newest_functions() -> list[str]:
    """Return the newest version of each function that this version of Penstock has a file for."""
    return list(newest().values())


async def find_former_name(
    connection: Executor, schema: str, functions: Sequence[str] | None = None
) -> str | None:
    """Return the former name of a renamed schema if functions still use it, or else None.

    The name is an SQL identifier. An application passes its own functions. If none are passed, the
    functions of the queue are examined.
    """
    names = newest_functions() if functions is None else list(functions)
    rows = await connection.fetch(statement("find_former_name", schema), schema, names)
    return str(rows[0]["name"]) if rows else None


async def rename_statements(connection: Executor, schema: str, former: str) -> list[str]:
    """Return the statements that make functions use a schema's present name, not the former one."""
    quoted = former if former.startswith('"') else f'"{former}"'
    rows = await connection.fetch(statement("rename_functions", schema), schema, former, quoted)
    return [row["statement"] for row in rows]


async def migrate(
    url_or_connection: str | Connection,
    *,
    schema: str = "penstock",
    to: int | None = None,
    rls: bool | None = None,
    timeout: float = CONNECT_TIMEOUT,
    silence: float = CONNECT_TIMEOUT,
) -> list[str]:
    """Apply the pending migrations in one transaction, and return their names.

        await migrate("postgresql://localhost/shop")

    If the schema was renamed, its functions are changed to use the new name.

    `to` is the number of the migration to apply or revert to; 0 removes everything, jobs included.
    `rls` switches row level security on or off, and None leaves it as it is. Connecting takes at
    most `timeout` seconds. A migration may take as long as it needs. It is cancelled only if the
    server accepts no other connection within `silence` seconds, twice in a row.
    """
    Database(schema=schema)  # This checks the name, which channels are named after.
    security.check_schema(schema, rls)
    connected = _connect(url_or_connection, timeout, silence)
    async with connected as connection, _transaction(connection):
        steps = await prepare(connection, schema, to)
        former = await find_former_name(connection, schema)
        try:
            for script in await build_sql(connection, schema, steps, rls):
                await connection.execute(script)
        except asyncpg.PostgresError as error:
            raise security.translate_error(error) from error
        renamed = [] if former is None else [f"the rename from {former}"]
        return renamed + [step.name for step in steps]


async def prepare(connection: Executor, schema: str, to: int | None = None) -> list[MigrationStep]:
    """Lock the migrations, create their table if necessary, and return the steps to take."""
    await lock_migrations(connection, schema)
    applied = [migration.number for migration in await applied_migrations(connection, schema)]
    if to is None and max(applied, default=0) > newest_number():
        await _check_version(connection, schema, SOME_DATABASE)
        return []
    steps = plan_steps(applied, to, schema)
    if any(step.direction == "up" for step in steps):
        await create_ledger(connection, schema)
    return steps


async def build_sql(
    connection: Executor, schema: str, steps: Sequence[MigrationStep], rls: bool | None = None
) -> list[str]:
    """Return the SQL of the steps, including the scripts for row level security.

    If the schema was renamed, the statements that change its functions come first.
    """
    is_on = await security.is_on(connection, schema)
    scripts = security.build_scripts(steps, schema, current=is_on, requested=rls)
    if (former := await find_former_name(connection, schema)) is not None:
        scripts = await rename_statements(connection, schema, former) + scripts
    return scripts


async def status(
    url_or_connection: str | Connection, *, schema: str = "penstock"
) -> list[MigrationStatus]:
    """List every migration that this version or the database knows, in order."""
    async with _connect(url_or_connection) as connection:
        migrated = await applied_migrations(connection, schema)
    applied = {migration.number: migration for migration in migrated}
    known = {number: MigrationStatus(number, name) for number, name in migrations()}
    return [migration for _, migration in sorted((known | applied).items())]


async def find_rename(
    url_or_connection: str | Connection, *, schema: str = "penstock"
) -> tuple[str | None, list[str]]:
    """Return a renamed schema's former name, and the SQL that makes its functions use the new one.

    If no function uses a former name, return None and an empty list.
    """
    async with _connect(url_or_connection) as connection:
        former = await find_former_name(connection, schema)
        sql = [] if former is None else await rename_statements(connection, schema, former)
        return former, sql


async def has_rls(url_or_connection: str | Connection, *, schema: str = "penstock") -> bool:
    """Return whether row level security is on."""
    async with _connect(url_or_connection) as connection:
        return await security.is_on(connection, schema)


async def check(connection: Executor, schema: str = "penstock", place: str = SOME_DATABASE) -> None:
    """Raise an error if this version of Penstock cannot work with the database's schema.

    The error is `SchemaMissing`, `SchemaTooOld`, `SchemaTooNew` or `SchemaRenamed`. Its message
    says what to do.
    """
    await _check_version(connection, schema, place)
    if (former := await find_former_name(connection, schema)) is not None:
        raise SchemaRenamed(schema, former, place=place)


async def _check_version(connection: Executor, schema: str, place: str) -> None:
    applied = await applied_migrations(connection, schema)
    current = max((migration.number for migration in applied), default=0)
    if current == 0:
        raise SchemaMissing(schema, place=place)
    if current < newest_number():
        raise SchemaTooOld(schema, current, newest_number(), place=place)
    if current > newest_number() and not await has_all_functions(connection, schema):
        raise SchemaTooNew(schema, current, newest_number(), place=place)


@asynccontextmanager
async def _connect(
    url_or_connection: str | Connection,
    timeout: float = CONNECT_TIMEOUT,
    silence: float = CONNECT_TIMEOUT,
) -> AsyncIterator[Connection]:
    if not isinstance(url_or_connection, str):
        yield url_or_connection
        return
    connection = await hosts.connect(url_or_connection, timeout=timeout, statement_cache_size=0)
    watch = asyncio.create_task(_terminate_if_frozen(connection, url_or_connection, silence))
    try:
        yield connection
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
        await connection.close()


async def _terminate_if_frozen(connection: Connection, url: str, silence: float) -> None:
    """Terminate the connection if its server accepts no other connection, twice in a row.

    A migration's statement may take hours, so it has no timeout of its own.
    """
    silences = 0
    while silences < 2:
        await asyncio.sleep(silence)
        try:
            async with asyncio.timeout(silence):
                other = await hosts.connect_beside(connection, url, timeout=silence)
                await other.close()
        except TimeoutError:
            silences += 1
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            silences = 0  # The server has answered, even if with a refusal.
        else:
            silences = 0
    connection.terminate()


@asynccontextmanager
async def _transaction(connection: Connection) -> AsyncIterator[None]:
    # After the wait for the lock this transaction must see what the others have committed. It is
    # therefore read committed, whatever the default is.
    nested = connection.is_in_transaction()
    async with connection.transaction(isolation=None if nested else "read_committed"):
        # Limits for statements are not meant for waiting until another process has migrated, or
        # for building a table.
        await connection.execute("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0")
        yield
