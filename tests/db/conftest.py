"""What the tests of the queue's SQL use beside the database."""

from collections.abc import AsyncIterator

import pytest

from tests.db.engine import Engine
from tests.fixtures.database import Database


@pytest.fixture
async def engine(database: Database) -> AsyncIterator[Engine]:
    """The queue's functions over a connection of this test's own."""
    async with database.connect() as connection:
        yield Engine(connection)


@pytest.fixture
async def other(database: Database) -> AsyncIterator[Engine]:
    """The same database over a second connection: another worker, another transaction."""
    async with database.connect() as connection:
        yield Engine(connection)
