"""Open the queue for a command, with a clear message when its database cannot be used."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import asyncpg

from penstock.app import Penstock
from penstock.cli.errors import (
    AccessDenied,
    CommandError,
    DatabaseMissing,
    DatabaseRefused,
    DatabaseUnreachable,
    NoDatabase,
)
from penstock.cli.where import Where
from penstock.client import Link
from penstock.config import Database
from penstock.embedded import Server
from penstock.errors import SchemaMissing
from penstock.insights import Insights
from penstock.store import Pool, failures, open_pool


@dataclass(frozen=True, slots=True)
class Reached:
    """A queue that was reached: to change it, and to look at it."""

    app: Penstock
    pool: Pool

    @property
    def insights(self) -> Insights:
        return Insights(self.app.store, self.pool)


class _Visitor(Penstock):
    """An app without code: it takes the schema as it is, and makes none."""

    def _link_to(self, database: Database) -> Link:
        return Link(database, migrates=False)


@asynccontextmanager
async def reached(where: Where) -> AsyncIterator[Reached]:
    """The queue that the options name. An embedded server is started, but none is made."""
    database = where.database()
    if database.url is None:
        expect_server(database)
    app = _Visitor(database.url, data_dir=database.data_dir, schema=database.schema)
    async with opened(app), looking(app) as pool:
        with plain_errors(app.database):
            yield Reached(app, pool)


@asynccontextmanager
async def opened(app: Penstock) -> AsyncIterator[None]:
    """The app, open; closed in any case."""
    with plain_errors(app.database):
        await app.open()
    try:
        yield
    finally:
        await app.close()


@asynccontextmanager
async def looking(app: Penstock) -> AsyncIterator[Pool]:
    """Connections for those who look, apart from the app's own."""
    pool = await open_pool(app.url, size=2, name="penstock cli")
    try:
        yield pool
    finally:
        await pool.close()


def expect_server(database: Database) -> None:
    """Raise if there is no embedded server yet: none is made for a look."""
    server = Server(database.data_dir)
    if server.status().socket_dir is None:
        raise NoDatabase(
            f"There is no database: none is named, and no embedded one is in {server.data_dir}. "
            "Give --database-url or set PENSTOCK_DATABASE_URL, or make an embedded one with "
            "`penstock db start`."
        )


@contextmanager
def plain_errors(database: Database) -> Iterator[None]:
    """What the driver raises, in words."""
    try:
        yield
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        if isinstance(error, BrokenPipeError):  # the reader of our output has gone
            raise
        if failures.is_schema_missing(error):
            raise SchemaMissing(database.schema) from error
        raise _explained(_place(database.url), error) from error


def _explained(place: str, error: Exception) -> CommandError:
    match error:
        case asyncpg.InvalidAuthorizationSpecificationError():
            return AccessDenied(f"{place} does not let the role in: {error}.")
        case asyncpg.InvalidCatalogNameError():
            return DatabaseMissing(f"{place} is not there: {error}.")
        case asyncpg.PostgresError() if not failures.is_lost(error):
            return DatabaseRefused(f"{place} refuses: {error}.")
    why = str(error) or "it did not answer in time"
    return DatabaseUnreachable(
        f"{place} cannot be reached: {why}. Is it running, and is the address right?"
    )


def _place(url: str | None) -> str:
    """The database without what may be a password."""
    if url is None:
        return "The embedded Postgres"
    parts = urlsplit(url)
    host = parts.hostname or "the local socket"
    return f"The database {parts.path.lstrip('/')} on {host}:{parts.port or 5432}"
