"""An app with the jobs of these tests."""

from collections.abc import AsyncIterator

import pytest

from penstock import Penstock
from tests.fixtures.database import Database
from tests.isolation import jobs


@pytest.fixture
async def app(database: Database) -> AsyncIterator[Penstock]:
    """An open app with the tasks of `jobs`."""
    async with Penstock(database.url, include=[jobs]) as app:
        yield app
