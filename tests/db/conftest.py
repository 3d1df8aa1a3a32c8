"""What the tests of the queue's SQL use beside the database."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.db.engine import Engine
from tests.db.play import Play
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


@pytest.fixture
def play(database: Database) -> Iterator[Play]:
    play = Play(database)
    yield play
    play.close()
