"""A database with the tables of knowledge, and a shelf in it."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from penstock import Database as Place
from penstock_apps.knowledge.schema import migrate
from penstock_apps.knowledge.store.shelves import Shelves
from tests.fixtures.database import END_SESSIONS, Database, connected, copied, create, drop
from tests.fixtures.server import PostgresServer
from tests.knowledge.search.shelf import Shelf


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def knowing(postgres: PostgresServer, template: Database) -> AsyncIterator[Database]:
    """The migrated database that the others are copied from."""
    if not postgres.admin.fetch("SELECT FROM pg_available_extensions WHERE name = 'vector'"):
        pytest.skip("this Postgres has no pgvector")
    knowing = await create(postgres, source=template.name)
    async with connected(knowing.admin_url) as admin:
        await admin.execute("CREATE EXTENSION vector")
    await migrate(Place(url=knowing.url))
    postgres.admin.fetch(END_SESSIONS, database=knowing.name)
    yield knowing
    await drop(postgres, knowing)


@pytest.fixture
async def database(
    postgres: PostgresServer, knowing: Database, request: pytest.FixtureRequest
) -> AsyncIterator[Database]:
    async with copied(postgres, knowing, request.node) as database:
        yield database


@pytest.fixture
async def shelves(database: Database) -> AsyncIterator[Shelves]:
    async with Shelves.opened(Place(url=database.url), 1) as shelves:
        yield shelves


@pytest.fixture
async def shelf(shelves: Shelves) -> Shelf:
    return await Shelf(shelves).build()
