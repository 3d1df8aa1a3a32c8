"""What the tests of the migrations use beside the database."""

from collections.abc import AsyncIterator

import pytest

from tests.fixtures.database import Database, create, drop
from tests.fixtures.later import later
from tests.fixtures.server import PostgresServer

__all__ = ["later"]


@pytest.fixture
async def empty(postgres: PostgresServer) -> AsyncIterator[Database]:
    """A database with nothing in it."""
    database = await create(postgres, source="template1")
    yield database
    await drop(postgres, database)
