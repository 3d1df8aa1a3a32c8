"""What the tests of the migrations use beside the database."""

from collections.abc import AsyncIterator

import pytest

from tests.fixtures.database import Database, connected, create, drop
from tests.fixtures.server import PostgresServer


@pytest.fixture
async def empty(postgres: PostgresServer) -> AsyncIterator[Database]:
    """A database with nothing in it."""
    database = await create(postgres, source="template1")
    yield database
    async with connected(postgres.admin_url) as admin:
        await drop(admin, database)
