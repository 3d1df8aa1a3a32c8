"""A shelf in a database of the test's own."""

from collections.abc import AsyncIterator

import pytest

from penstock import Database as Address
from penstock_apps.knowledge.store.tables import TablePool
from tests.fixtures.database import Database
from tests.knowledge.search.shelf import Shelf


@pytest.fixture
async def tables(knowledge_database: Database) -> AsyncIterator[TablePool]:
    async with TablePool.opened(Address.of(knowledge_database.url), 1) as tables:
        yield tables


@pytest.fixture
async def shelf(tables: TablePool) -> Shelf:
    return await Shelf(tables).build()
