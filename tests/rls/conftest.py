"""A database under row level security, with two tenants in every table."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import quote

import asyncpg
import pytest
import pytest_asyncio

from penstock.migrate import migrate
from penstock.sql import rls
from tests.fixtures.address import with_role
from tests.fixtures.database import END_SESSIONS, Database, connected, create, drop
from tests.fixtures.later import later
from tests.fixtures.server import PostgresServer
from tests.rls.seeds import SEEDS, values

__all__ = ["later"]

WORKER_LOGIN = f"penstock_rls_worker_{os.getpid()}"
APP_LOGIN = f"penstock_rls_app_{os.getpid()}"
ODD = 'it\'s "odd"'


@dataclass(frozen=True, slots=True)
class Ground:
    """The database, and who logs in to it."""

    database: Database
    worker_url: str
    app_url: str

    @asynccontextmanager
    async def trying(
        self, tenant: str | None, *, slip: bool = False
    ) -> AsyncIterator[asyncpg.Connection]:
        """A transaction as the app's login, for a tenant; what it does is rolled back.

        After a `slip` of an administrator the app has rights to every table and every row.
        """
        async with connected(self.database.admin_url) as connection:
            transaction = connection.transaction()
            await transaction.start()
            if slip:
                await connection.execute(
                    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA penstock"
                    f" TO {APP_LOGIN}; GRANT ALL ON ALL SEQUENCES IN SCHEMA penstock TO {APP_LOGIN}"
                )
            await connection.execute(f"SET LOCAL ROLE {APP_LOGIN}")
            if tenant is not None:
                await connection.execute("SELECT set_config('penstock.tenant', $1, true)", tenant)
            try:
                yield connection
            finally:
                await transaction.rollback()

    @staticmethod
    @asynccontextmanager
    async def undone(connection: asyncpg.Connection) -> AsyncIterator[None]:
        """One of several tries in such a transaction: what it does is rolled back, its role too."""
        part = connection.transaction()
        await part.start()
        try:
            yield
        finally:
            await part.rollback()

    @asynccontextmanager
    async def owner(self) -> AsyncIterator[asyncpg.Connection]:
        """The owner, whose changes stay."""
        async with connected(self.database.direct_url) as connection:
            yield connection


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def logins(postgres: PostgresServer) -> AsyncIterator[None]:
    """Two roles that log in, as an administrator makes them, and those for row level security."""
    async with connected(postgres.admin_url) as admin, connected(postgres.direct_url) as owner:
        for schema in ("penstock", ODD):
            try:
                await owner.execute(rls("roles", schema))
            except asyncpg.PostgresError:  # not every owner may
                await admin.execute(rls("roles", schema))
        for login in (WORKER_LOGIN, APP_LOGIN):
            await admin.execute(f"CREATE ROLE {login} LOGIN")
        yield
        for login in (WORKER_LOGIN, APP_LOGIN):
            await admin.execute(f"DROP ROLE {login}")


async def way_in(database: Database, login: str) -> str:
    """The address for a role that logs in; where the server lets no new ones in, it is put on."""
    url = with_role(database.direct_url, login)
    try:
        async with connected(url):
            return url
    except asyncpg.InvalidAuthorizationSpecificationError:
        mark = "&" if "?" in database.admin_url else "?"
        return f"{database.admin_url}{mark}options={quote(f'-c role={login}')}"


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def secured(
    postgres: PostgresServer, template: Database, logins: None
) -> AsyncIterator[Database]:
    """The database under row level security that the others are copied from."""
    database = await create(postgres, source=template.name)
    await migrate(database.direct_url, rls=True)
    postgres.admin.execute(
        f"GRANT penstock_worker TO {WORKER_LOGIN}; GRANT penstock_app TO {APP_LOGIN}"
    )
    # PgBouncer keeps its connections for the next client.
    postgres.admin.fetch(END_SESSIONS, database=database.name)
    yield database
    await drop(postgres, database)


@asynccontextmanager
async def grounded(postgres: PostgresServer, secured: Database) -> AsyncIterator[Ground]:
    """A database of its own under row level security."""
    database = await create(postgres, source=secured.name)
    try:
        worker_url, app_url = [await way_in(database, login) for login in (WORKER_LOGIN, APP_LOGIN)]
        yield Ground(database, worker_url, app_url)
    finally:
        await drop(postgres, database)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def seeded(postgres: PostgresServer, secured: Database) -> AsyncIterator[Ground]:
    """Two tenants, each with a row in every table. Nobody may change it."""
    async with grounded(postgres, secured) as ground:
        async with ground.owner() as owner:
            for tenant in ("a", "b"):
                for seed in SEEDS.values():
                    await owner.execute(seed.format(**values(tenant)))
        yield ground


@pytest.fixture
async def ground(postgres: PostgresServer, secured: Database) -> AsyncIterator[Ground]:
    """A database of this test's own under row level security."""
    async with grounded(postgres, secured) as ground:
        yield ground
