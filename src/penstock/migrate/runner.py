"""Apply migrations, all of them or none, whoever else is starting at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import asyncpg

from penstock import hosts
from penstock.config import Database
from penstock.errors import SOME_DATABASE, SchemaMissing, SchemaRenamed, SchemaTooNew, SchemaTooOld
from penstock.migrate import plan as migrate_plan
from penstock.migrate import rls as security
from penstock.migrate.plan import Connection, MigrationStatus, Step, newest, plan
from penstock.sql import migrations, statement
from penstock.sql import newest as newest_of_each
from penstock.store import Executor
from penstock.store.connection import CONNECT_TIMEOUT


async def serves_us(connection: Executor, schema: str) -> bool:
    """Whether the schema has every function that this version calls."""
    return not await connection.fetch(
        statement("list_missing_functions", schema), schema, newest_functions()
    )


def newest_functions() -> list[str]:
    """The newest version of each function that this version of Penstock has a file for."""
    return list(newest_of_each().values())


async def former_name(
    connection: Executor, schema: str, functions: Sequence[str] | None = None
) -> str | None:
    """The name that the functions still look for, as an identifier; None if it is the schema's.

    `functions` are those of an application, else they are the queue's.
    """
    ours = newest_functions() if functions is None else list(functions)
    rows = await connection.fetch(statement("find_former_name", schema), schema, ours)
    return str(rows[0]["name"]) if rows else None


async def renaming(connection: Executor, schema: str, former: str) -> list[str]:
    """The statements that lead the functions to the schema's present name."""
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
    """Apply what is pending, in one transaction; return the names of what was applied.

    The functions of a schema that was renamed are led to its new name.

        await migrate("postgresql://localhost/shop")

    `to` goes to that migration instead, which may be back: 0 removes everything, jobs included.
    `rls` switches row level security on or off; without it, that stays as it is.
    A migration may take as long as it needs. `timeout` is how long connecting may take. The
    migration is given up if its server answers nobody else twice in a row for `silence` seconds.
    """
    Database(schema=schema)  # Its rule for names: channels are named after it.
    security.check(schema, rls)
    connected = _connected(url_or_connection, timeout, silence)
    async with connected as connection, _transaction(connection):
        steps = await prepare(connection, schema, to)
        former = await former_name(connection, schema)
        try:
            for piece in await covered(connection, schema, steps, rls):
                await connection.execute(piece)
        except asyncpg.PostgresError as error:
            raise security.translated(error) from error
        renamed = [] if former is None else [f"the rename from {former}"]
        return renamed + [step.name for step in steps]


async def prepare(connection: Executor, schema: str, to: int | None = None) -> list[Step]:
    """The steps to take, in this transaction, with the way made free for them."""
    await migrate_plan.lock(connection, schema)
    applied = [each.number for each in await migrate_plan.applied(connection, schema)]
    if to is None and max(applied, default=0) > newest():
        await _check_version(connection, schema, SOME_DATABASE)
        return []
    steps = plan(applied, to, schema)
    if any(step.direction == "up" for step in steps):
        await migrate_plan.create(connection, schema)
    return steps


async def covered(
    connection: Executor, schema: str, steps: Sequence[Step], rls: bool | None = None
) -> list[str]:
    """The SQL of the steps, which keeps row level security where it is on, or switches it.

    Before them comes what a rename of the schema makes necessary.
    """
    found = await security.is_on(connection, schema)
    pieces = security.pieces(steps, schema, found=found, wanted=rls)
    if (former := await former_name(connection, schema)) is not None:
        pieces = await renaming(connection, schema, former) + pieces
    return pieces


async def status(
    url_or_connection: str | Connection, *, schema: str = "penstock"
) -> list[MigrationStatus]:
    """Every migration that this version or the database knows, in order."""
    async with _connected(url_or_connection) as connection:
        applied = {each.number: each for each in await migrate_plan.applied(connection, schema)}
    known = {number: MigrationStatus(number, name) for number, name in migrations()}
    return [each for _, each in sorted((known | applied).items())]


async def renamed_from(
    url_or_connection: str | Connection, *, schema: str = "penstock"
) -> tuple[str | None, list[str]]:
    """The former name of a schema whose functions still look for it, and the SQL that mends them.

    None and nothing for any other.
    """
    async with _connected(url_or_connection) as connection:
        former = await former_name(connection, schema)
        pieces = [] if former is None else await renaming(connection, schema, former)
        return former, pieces


async def has_rls(url_or_connection: str | Connection, *, schema: str = "penstock") -> bool:
    """Whether row level security is on."""
    async with _connected(url_or_connection) as connection:
        return await security.is_on(connection, schema)


async def check(connection: Executor, schema: str = "penstock", place: str = SOME_DATABASE) -> None:
    """Raise if this version cannot work with the database's schema, and say what to do."""
    await _check_version(connection, schema, place)
    if (former := await former_name(connection, schema)) is not None:
        raise SchemaRenamed(schema, former, place=place)


async def _check_version(connection: Executor, schema: str, place: str) -> None:
    found = max((each.number for each in await migrate_plan.applied(connection, schema)), default=0)
    if found == 0:
        raise SchemaMissing(schema, place=place)
    if found < newest():
        raise SchemaTooOld(schema, found, newest(), place=place)
    if found > newest() and not await serves_us(connection, schema):
        raise SchemaTooNew(schema, found, newest(), place=place)


@asynccontextmanager
async def _connected(
    url_or_connection: str | Connection,
    timeout: float = CONNECT_TIMEOUT,
    silence: float = CONNECT_TIMEOUT,
) -> AsyncIterator[Connection]:
    if not isinstance(url_or_connection, str):
        yield url_or_connection
        return
    connection = await hosts.connect(url_or_connection, timeout=timeout, statement_cache_size=0)
    watch = asyncio.create_task(_cut_off_if_frozen(connection, url_or_connection, silence))
    try:
        yield connection
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
        await connection.close()


async def _cut_off_if_frozen(connection: Connection, url: str, silence: float) -> None:
    """A statement of a migration may take hours, so another connection asks whether its server
    answers at all: after two silences in a row the statement is given up."""
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
            silences = 0  # It has answered, if only to say no.
        else:
            silences = 0
    connection.terminate()


@asynccontextmanager
async def _transaction(connection: Connection) -> AsyncIterator[None]:
    # Read committed, whatever the default: after the wait for the lock we must see what was done.
    nested = connection.is_in_transaction()
    async with connection.transaction(isolation=None if nested else "read_committed"):
        # Waiting for another process and building a table are not the statements a limit is for.
        await connection.execute("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0")
        yield
